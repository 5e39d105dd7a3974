// Every layer against the dumps of the official program, started from the dump's own streams, with
// the tolerances of tests/golden/README.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/safetensors.h"
#include "io/text.h"
#include "kernels/numerics.h"
#include "tests/support/models.h"
#include "tests/support/paths.h"

namespace sluice::test {
namespace {

struct Values {
    std::vector<uint64_t> shape;
    std::vector<double> data;  // exact for every dtype in a dump
};

std::vector<double> widen(DType dtype, const std::vector<std::byte>& raw) {
    std::vector<double> out(raw.size() / dtype_size(dtype));
    for (size_t i = 0; i < out.size(); ++i) {
        const std::byte* at = raw.data() + i * dtype_size(dtype);
        if (dtype == DType::bf16) {
            bf16 value;
            std::memcpy(&value, at, 2);
            out[i] = to_float(value);
        } else if (dtype == DType::f32) {
            float value;
            std::memcpy(&value, at, 4);
            out[i] = value;
        } else if (dtype == DType::i32) {
            int32_t value;
            std::memcpy(&value, at, 4);
            out[i] = value;
        } else {
            REQUIRE(dtype == DType::u8);
            out[i] = static_cast<uint8_t>(*at);
        }
    }
    return out;
}

using Dump = std::map<std::string, Values>;

Dump read_dump(const std::string& name) {
    auto file =
        File::open(std::string(test::golden_folder) + "/" + name + ".dump/prefill.safetensors",
                   Access::buffered);
    REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
    auto header = read_safetensors_header(*file);
    REQUIRE_MESSAGE(header, (header ? "" : header.error().message));
    Dump dump;
    for (const TensorEntry& entry : header->tensors) {
        std::vector<std::byte> raw(entry.bytes);
        REQUIRE(file->read(entry.offset, raw.data(), raw.size()));
        dump[entry.name] = {entry.shape, widen(entry.dtype, raw)};
    }
    return dump;
}

// Starts every layer from the dump, and keeps the engine's results.
class LayerProbe : public Probe {
 public:
    explicit LayerProbe(const Dump& dump) : dump_(dump) {}

    bool replace(int32_t layer, std::span<float> h, std::span<float> pre) override {
        const auto& h_in = dump_.at(cat("layer.", layer, ".h_in")).data;
        REQUIRE(h_in.size() == h.size());
        std::copy(h_in.begin(), h_in.end(), h.begin());
        if (layer > 0 && !pre.empty()) {
            const auto& handed = dump_.at(cat("layer.", layer - 1, ".pre")).data;
            REQUIRE(handed.size() == pre.size());
            std::copy(handed.begin(), handed.end(), pre.begin());
        }
        return true;
    }
    void floats(int32_t layer, std::string_view name, std::span<const float> values) override {
        // Engram runs before the streams are replaced: it sees the engine's own.
        got[key(layer, name)].assign(values.begin(), values.end());
    }
    void integers(int32_t layer, std::string_view name, std::span<const int64_t> values) override {
        got[key(layer, name)].assign(values.begin(), values.end());
    }

    std::map<std::string, std::vector<double>> got;

 private:
    static std::string key(int32_t layer, std::string_view name) {
        return layer < 0 ? std::string(name) : cat("layer.", layer, ".", name);
    }
    const Dump& dump_;
};

struct Difference {
    double median = 0, worst = 0;
    size_t rows = 0, equal = 0;  // bit by bit
};

using Excused = std::vector<bool>;  // per row; empty: none

// Infinities have to be at the same places.
Difference difference(const std::vector<double>& want, const std::vector<double>& got, size_t rows,
                      const Excused& excused = {}) {
    REQUIRE(want.size() == got.size());
    const size_t width = want.size() / rows;
    std::vector<double> relative;
    Difference d;
    for (size_t row = 0; row < rows; ++row) {
        if (!excused.empty() && excused[row]) continue;
        double error = 0, size = 0;
        for (size_t i = row * width; i < (row + 1) * width; ++i) {
            if (got[i] == want[i] && std::isinf(want[i])) continue;
            error += (got[i] - want[i]) * (got[i] - want[i]);
            size += want[i] * want[i];
        }
        relative.push_back(size > 0 ? std::sqrt(error / size) : std::sqrt(error));
        d.equal += error == 0;
    }
    d.rows = relative.size();
    REQUIRE(d.rows > 0);
    d.worst = *std::max_element(relative.begin(), relative.end());
    std::nth_element(relative.begin(), relative.begin() + d.rows / 2, relative.end());
    d.median = relative[d.rows / 2];
    return d;
}

// The scores of every expert for each position, from the layer's own input, in double.
std::vector<double> router_scores(const Checkpoint& checkpoint, int32_t layer,
                                  const std::vector<double>& x, size_t dim) {
    const auto tensor = [&](const char* name) {
        const Tensor* t = checkpoint.find(cat("layers.", layer, ".ffn.gate.", name));
        REQUIRE(t);
        std::vector<std::byte> raw(t->bytes);
        REQUIRE(checkpoint.shards()[t->shard].read(t->offset, raw.data(), raw.size()));
        return widen(t->dtype, raw);
    };
    const std::vector<double> gate = tensor("weight"), bias = tensor("bias");
    std::vector<double> scores;
    for (size_t i = 0; i < x.size() / dim; ++i) {
        for (size_t e = 0; e < bias.size(); ++e) {
            double z = 0;
            for (size_t d = 0; d < dim; ++d) z += gate[e * dim + d] * x[i * dim + d];
            scores.push_back(std::sqrt(std::log1p(std::exp(z))) + bias[e]);
        }
    }
    return scores;
}

struct Case {
    const char* trace;
    const char* model;
    double worst;            // relative error of any position
    int32_t settled_layers;  // the first ones, in each of which so many values are bit-equal:
    double settled_share;
};

struct Run {
    const Case& c;
    const Dump& dump;
    const LayerProbe& probe;
    const ModelConfig& config;
    const Checkpoint& checkpoint;
    size_t tokens;
};

std::vector<double> sorted_row(const std::vector<double>& all, size_t row, size_t width) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * width);
    std::vector<double> values(begin, begin + static_cast<std::ptrdiff_t>(width));
    std::sort(values.begin(), values.end());
    return values;
}

// Positions whose experts are others, which only nearly equal scores excuse.
Excused check_routes(const Run& run, int32_t layer) {
    CAPTURE(layer);
    const Values& want = run.dump.at(cat("layer.", layer, ".route_ids"));
    const auto& got = run.probe.got.at(cat("layer.", layer, ".route_ids"));
    const size_t n = want.shape[0], k = want.shape[1];
    Excused flipped(n, false);
    if (layer < run.config.token_routed_layers) {
        CHECK(want.data == got);
        return flipped;
    }
    const auto& x = run.probe.got.at(cat("layer.", layer, ".ffn_in"));
    const std::vector<double> scores = router_scores(run.checkpoint, layer, x, x.size() / n);
    const size_t experts = scores.size() / n;
    for (size_t i = 0; i < n; ++i) {
        CAPTURE(i);
        const std::vector<double> ascending = sorted_row(scores, i, experts);
        const double chosen = ascending[experts - k], left = ascending[experts - k - 1];
        flipped[i] = sorted_row(want.data, i, k) != sorted_row(got, i, k);
        if (chosen - left > 0.02 * std::abs(chosen)) CHECK(!flipped[i]);
    }
    return flipped;
}

// The open group of a pool, [n mod ratio][columns].
std::vector<double> open_group(const Run& run, int32_t layer, size_t columns,
                               const std::vector<double>& pool) {
    const LayerRows& rows = run.config.rows[layer];
    const size_t ratio = static_cast<size_t>(rows.ratio);
    const double* at = pool.data() + (rows.overlap ? ratio : 0) * columns;
    return {at, at + run.tokens % ratio * columns};
}

// With overlap, of the group before it what is pooled again: the first half of the columns.
std::vector<double> previous_group(const Run& run, int32_t layer, size_t columns,
                                   const std::vector<double>& pool) {
    std::vector<double> group;
    const LayerRows& rows = run.config.rows[layer];
    for (int32_t slot = 0; rows.overlap && slot < rows.ratio; ++slot) {
        const double* at = pool.data() + static_cast<size_t>(slot) * columns;
        group.insert(group.end(), at, at + columns / 2);
    }
    return group;
}

// A dump has room for whole groups. What is not in use may be anything.
void check_pool(const Run& run, const std::string& name, int32_t layer) {
    const Values& want = run.dump.at(name);
    const std::vector<double>& got = run.probe.got.at(name);
    const size_t columns = want.shape[1];
    for (const auto& [part, width] :
         {std::pair(&previous_group, columns / 2), std::pair(&open_group, columns)}) {
        const std::vector<double> wanted = part(run, layer, columns, want.data);
        if (wanted.empty()) continue;
        const Difference d =
            difference(wanted, part(run, layer, columns, got), wanted.size() / width);
        MESSAGE(name, ": worst ", d.worst, " equal ", d.equal, "/", d.rows);
        CHECK(d.worst <= 2e-3);
    }
}

// What an indexer compared: most rows are equal, or it rounds at other places.
void check_scores(const Values& want, const std::vector<double>& got) {
    const size_t n = want.shape[0], rows = want.shape[1];
    Excused empty(n);
    for (size_t i = 0; i < n; ++i) {
        const auto begin = want.data.begin() + static_cast<std::ptrdiff_t>(i * rows);
        empty[i] = std::all_of(begin, begin + static_cast<std::ptrdiff_t>(rows),
                               [](double x) { return std::isinf(x); });
        if (empty[i]) CHECK(sorted_row(want.data, i, rows) == sorted_row(got, i, rows));
    }
    const Difference d = difference(want.data, got, n, empty);
    MESSAGE("index_scores: equal ", d.equal, "/", d.rows);
    CHECK(2 * d.equal >= d.rows);
    CHECK(d.worst < 0.5);
}

Difference check_values(const Run& run, const std::string& name, const std::string& part,
                        const Excused& flipped) {
    const Values& want = run.dump.at(name);
    const bool routed = part == "ffn_out" || part == "h";
    const Difference d =
        difference(want.data, run.probe.got.at(name), part == "logits" ? 1 : want.shape[0],
                   routed ? flipped : Excused{});
    MESSAGE(name, ": median ", d.median, " worst ", d.worst, " equal ", d.equal, "/", d.rows);
    CHECK(d.median <= 2e-3);
    CHECK(d.worst <= run.c.worst);
    return d;
}

void check_all(const Run& run) {
    std::vector<Excused> flipped;
    for (int32_t layer = 0; layer < run.config.layers; ++layer) {
        flipped.push_back(check_routes(run, layer));
    }
    std::vector<Difference> layers(flipped.size());
    for (const auto& [name, want] : run.dump) {
        CAPTURE(name);
        const bool of_layer = name.starts_with("layer.");
        const std::string part = of_layer ? name.substr(name.find('.', 6) + 1) : name;
        const int32_t layer = of_layer ? std::stoi(name.substr(6)) : -1;
        if (part == "dspark_taps" || part == "h_in" || part == "route_w" || part == "route_ids") {
            continue;
        }
        // A device with memory of its own keeps its scores.
        if (part == "index_scores" && !run.probe.got.contains(name)) {
            REQUIRE(std::getenv("SLUICE_TEST_DEVICE"));
            continue;
        }
        REQUIRE(run.probe.got.contains(name));
        const std::vector<double>& got = run.probe.got.at(name);
        if (part == "engram_rows" || part == "candidates" || part == "topk_rows" ||
            part == "embed") {
            CHECK(want.data == got);
        } else if (part.starts_with("state.") && part.find("open_") != std::string::npos) {
            check_pool(run, name, layer);
        } else if (part == "index_scores") {
            check_scores(want, got);
        } else {
            const auto d = check_values(run, name, part, of_layer ? flipped[layer] : Excused{});
            // "pre" is fp32: its last bits depend on the order of additions.
            if (!of_layer || part == "pre") continue;
            if (layer < run.c.settled_layers) CHECK(2 * d.equal >= d.rows);
            layers[layer].rows += d.rows;
            layers[layer].equal += d.equal;
        }
    }
    for (int32_t layer = 0; layer < run.config.layers; ++layer) {
        const auto [rows, equal] = std::pair(layers[layer].rows, layers[layer].equal);
        MESSAGE(std::string(run.c.trace), " layer ", layer, ": bit-equal ", equal, " of ", rows);
        if (layer >= run.c.settled_layers) continue;
        CHECK(static_cast<double>(equal) >= run.c.settled_share * static_cast<double>(rows));
    }
}

void check_dump(const Case& c) {
    const Dump dump = read_dump(c.trace);
    EngineOptions options = model_options(c.model);
    options.chunk = options.context;
    auto engine = load_engine(options);
    auto session = open_session(*engine);
    CheckpointOptions where;
    where.locations = {model_path(c.model)};
    auto checkpoint = Checkpoint::open(where);
    REQUIRE(checkpoint);
    auto trace = read_trace(std::string(test::golden_folder) + "/" + c.trace + ".json");
    REQUIRE(trace);
    LayerProbe probe(dump);
    session->set_probe(&probe);
    REQUIRE(session->feed(trace->prompt));
    check_all({c, dump, probe, engine->config(), *checkpoint, trace->prompt.size()});
}

}  // namespace

TEST_CASE("layers of dsv41-tiny from the dump's streams") {
    check_dump({"dsv41-tiny-00", "dsv41-tiny", 6e-2, 4, 0.9});
}
TEST_CASE("layers of dsv41-rand-a from the dump's streams") {
    check_dump({"dsv41-rand-a-02", "dsv41-rand-a", 6e-2, 4, 0.9});
}
TEST_CASE("layers of dsv4-rand-a from the dump's streams") {
    check_dump({"dsv4-rand-a-02", "dsv4-rand-a", 8e-2, 6, 0.5});
}

}  // namespace sluice::test
