// Writes a route file whose routes are like those of the released DeepSeek-V4.1-Flash
// (route_process.h), for `sluice simulate`.
//
//   make_routes OUT --family NAME [--layers N] [--tokens N] [--seed N]
//   make_routes --check [--layers N] [--seed N]
//
// --check prints the published figures beside those of the family `corpus`, the sequences that they
// were measured with, and exits with 1 if one of them is outside its tolerance. The other families
// have the same layers and conversations of another kind. With fewer layers, every figure that is
// not a layer's is compared with a cache that holds the same share of the experts.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <thread>

#include "cache/route_file.h"
#include "io/text.h"
#include "tools/dev/route_tables.h"

namespace {

using namespace sluice;

constexpr uint64_t expert_bytes = 18'800'000;

struct Family {
    const char* name;
    const char* what;
    int conversations, tokens, prompt;  // tokens in all; prompt: of each conversation
    int topics;
    bool in_order;  // one topic after the other; otherwise they change at random
    double passage, aside;
    int times;  // each conversation comes as often
};

constexpr Family families[] = {
    {"corpus", "95 sequences, two kinds of text one after the other", 95, 17704, 0, 2, true, 0, 0,
     1},
    {"chat", "one long conversation about one thing", 1, 3000, 0, 2, true, 0, 0, 1},
    {"mixed", "one conversation that goes from one kind of text to the other", 1, 3000, 0, 2, true,
     80, 0.3, 1},
    {"short", "short conversations, the kind of text changes at random", 60, 3000, 0, 2, false, 0,
     0, 1},
    {"drifting", "conversations about twelve topics that drift", 12, 3000, 0, 12, false, 60, 0.2,
     1},
    {"code", "conversations about one topic", 20, 3000, 0, 1, true, 0, 0, 1},
    {"prompts", "conversations that begin with a prompt of 160 tokens", 10, 3200, 160, 2, false, 0,
     0, 1},
    {"repeated", "answers of 60 tokens, each asked for four times", 10, 2400, 0, 2, false, 0, 0, 4},
};

// Of a model with fewer layers: those of the published ones that stand for the others.
int published_layer(int layer, int layers) {
    return (2 * layer + 1) * published_layer_count / (2 * layers);
}

std::vector<Spoken> conversations_of(const Family& family, int tokens, uint64_t seed) {
    Random random(mix(seed) ^ 1);
    const auto count = static_cast<size_t>(family.conversations);
    std::vector<double> lengths(count);
    double sum = 0;
    for (double& length : lengths) sum += length = std::exp(0.5 * random.normal());
    std::vector<Spoken> out;
    int left = tokens / family.times;
    for (size_t i = 0; i < count; ++i) {
        const double share = lengths[i] / sum * tokens / family.times;
        const int length = i + 1 == count ? left : std::max(1, static_cast<int>(share));
        left -= length;
        const auto topics = static_cast<uint32_t>(family.topics);
        const uint32_t topic =
            family.in_order ? static_cast<uint32_t>(i * topics / count) : random.below(topics);
        out.push_back({{static_cast<int>(topic), family.passage, family.aside},
                       length,
                       std::min(length, family.prompt)});
    }
    return out;
}

RouteTable routes_of(const Family& family, int layers, int tokens, uint64_t seed) {
    RouteTable table;
    table.all = conversations_of(family, tokens, seed);
    table.layers.resize(static_cast<size_t>(layers));
    const RouteShape corpus_shape;
    table.shape.topics = std::max(family.topics, corpus_shape.topics);
    const auto corpus = conversations_of(families[0], families[0].tokens, 1);
    const auto work = [&](int first, int step) {
        for (int i = first; i < layers; i += step) {
            const int layer = published_layer(i, layers);
            const auto& wanted = published_layers[layer];
            const uint64_t key = layer_key(seed, layer);
            const LayerFit fit = fit_layer(corpus_shape, wanted, corpus, key);
            table.layers[static_cast<size_t>(i)] = layer_routes(table.shape, fit, table.all, key);
        }
    };
    const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back(work, i, threads);
    for (auto& one : running) one.join();
    return table;
}

// ---- writing ------------------------------------------------------------------------------------

bool complain(const Error& error) {
    return std::fprintf(stderr, "make_routes: %s\n", error.message.c_str()), false;
}

bool write(const std::string& path, const RouteTable& table, const Family& family) {
    const auto layers = static_cast<int32_t>(table.layers.size());
    const int32_t top_k = table.shape.top_k;
    auto recorder = RouteRecorder::create(
        path, {layers, table.shape.experts, top_k, expert_bytes, family.name});
    if (!recorder) return complain(recorder.error());
    size_t first = 0;
    for (const Spoken& one : table.all) {
        for (int i = 0; i < one.tokens * family.times; ++i) {
            const int at = i % one.tokens;
            const size_t token = first + static_cast<size_t>(at);
            for (int32_t layer = 0; layer < layers; ++layer) {
                const std::span<const int32_t> all(table.layers[static_cast<size_t>(layer)]);
                const auto wide = static_cast<size_t>(top_k);
                (*recorder)->step({layer, all.subspan(token * wide, wide), {}});
            }
            const bool prompt = at < one.prompt;
            auto done = (*recorder)->token_done(prompt, !prompt || at + 1 == one.prompt);
            if (!done) return complain(done.error());
        }
        first += static_cast<size_t>(one.tokens);
    }
    if (auto kept = (*recorder)->keep(); !kept) return complain(kept.error());
    return true;
}

// ---- checking -----------------------------------------------------------------------------------

class Check {
 public:
    void row(const std::string& what, double wanted, double got, double tolerance) {
        const bool good = std::fabs(got - wanted) <= tolerance;
        good_ = good_ && good;
        std::printf("%-46s %8.2f %8.2f   %5.2f%s\n", what.c_str(), wanted, got, tolerance,
                    good ? "" : "   OUTSIDE");
    }
    bool good() const { return good_; }

 private:
    bool good_ = true;
};

struct Curve {
    const char* what;
    double hits[8];
};
constexpr size_t curve_sizes[] = {1000, 1500, 2000, 3000, 4000, 5000, 6000, 8000};
constexpr Curve curves[] = {
    {"best set that never changes", {34.7, 42.7, 49.2, 59.7, 67.9, 74.6, 80.2, 88.8}},
    {"LRU, token by token", {57.4, 66.4, 72.8, 80.8, 85.5, 89.3, 92.2, 96.0}},
    {"LRU, six tokens at once", {36.0, 46.1, 56.6, 69.3, 77.0, 83.0, 87.6, 93.6}},
};

size_t scaled(size_t slots, const RouteTable& table) {
    return slots * table.layers.size() / published_layer_count;
}

void check_layers(const RouteTable& table, Check& check) {
    double jaccard = 0, cover = 0;
    const auto count = static_cast<int>(table.layers.size());
    for (int i = 0; i < count; ++i) {
        const int layer = published_layer(i, count);
        const auto& wanted = published_layers[layer];
        const auto got = figures_of(table.shape, table.layers[static_cast<size_t>(i)], table.all);
        const auto name = [layer](const char* what) { return cat("layer ", layer, ", ", what); };
        check.row(name("most used 10 %"), wanted.top10, got.top10, 3);
        check.row(name("most used 25 %"), wanted.top25, got.top25, 3);
        check.row(name("most used 50 %"), wanted.top50, got.top50, 3);
        check.row(name("experts of six tokens"), wanted.six, got.six, 1);
        const Overlap overlap = overlap_of(table, static_cast<size_t>(i));
        jaccard += overlap.jaccard / count, cover += overlap.cover / count;
    }
    check.row("Jaccard index of two topics' quarters, mean", 0.13, jaccard, 0.05);
    check.row("slots covered by the other's quarter, mean", 27.5, cover, 10.5);
}

void check_curves(const RouteTable& table, Check& check) {
    const auto by_token = table.distances(false), by_pass = table.distances(true);
    for (size_t i = 0; i < std::size(curves); ++i) {
        for (size_t size = 0; size < std::size(curve_sizes); ++size) {
            const size_t slots = scaled(curve_sizes[size], table);
            const double got = i == 0   ? table.static_hits(slots)
                               : i == 1 ? by_token.hits(slots)
                                        : by_pass.hits(slots);
            check.row(cat(curves[i].what, ", ", curve_sizes[size]), curves[i].hits[size], got, 2);
        }
    }
}

// An answer of 500 tokens that goes from one kind of text to the other and back. About one kind
// alone it cannot use as many experts: an LRU's hits in `corpus` and the experts that 500 steps
// touch follow from each other, and the published ones do not belong to the same text.
void check_answer(const RouteTable& table, Check& check) {
    std::vector<double> touched;
    double share = 0;
    for (const auto& layer : table.layers) {
        const auto steps = std::span(layer).first(500 * static_cast<size_t>(table.shape.top_k));
        const auto uses = uses_of(table.shape, steps);
        touched.push_back(static_cast<double>(
            std::count_if(uses.begin(), uses.end(), [](double one) { return one > 0; })));
        share +=
            share_of_top(uses, uses.size() * 8 / 100) / static_cast<double>(table.layers.size());
    }
    std::sort(touched.begin(), touched.end());
    check.row("500 steps: experts of the median layer", 286, touched[touched.size() / 2], 10);
    check.row("500 steps: share of the most used 8 %", 50, share, 3);
}

const Family& family_of(const std::string& name) {
    for (const Family& one : families) {
        if (name == one.name) return one;
    }
    return families[0];
}

bool check_all(int layers, uint64_t seed) {
    Check check;
    std::printf("%-46s %8s %8s   %s\n", "", "wanted", "got", "tolerance");
    const auto corpus = routes_of(families[0], layers, families[0].tokens, seed);
    check_layers(corpus, check);
    check_curves(corpus, check);
    check_answer(routes_of(family_of("mixed"), layers, 500, seed), check);
    std::printf("make_routes: %s\n", check.good() ? "every figure is within its tolerance"
                                                  : "figures OUTSIDE their tolerances");
    return check.good();
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Writes routes like those of the released model, for sluice simulate");
    std::string out, name = "corpus";
    std::vector<std::string> names;
    std::string about = "One of";
    for (const Family& one : families) {
        names.emplace_back(one.name);
        about += cat(names.size() > 1 ? "; " : " ", one.name, ": ", one.what);
    }
    int layers = published_layer_count, tokens = 0;
    uint64_t seed = 1;
    bool check = false;
    auto* file = app.add_option("OUT", out, "Route file to write");
    app.add_option("--family", name, about)->check(CLI::IsMember(names));
    app.add_option("--layers", layers)->check(CLI::Range(1, published_layer_count));
    app.add_option("--tokens", tokens, "Tokens in all")->check(CLI::Range(100, 1000000));
    app.add_option("--seed", seed);
    app.add_flag("--check", check, "Compare with what is published")->excludes(file);
    CLI11_PARSE(app, argc, argv);
    if (check) return check_all(layers, seed) ? 0 : 1;
    if (out.empty()) {
        std::fprintf(stderr, "make_routes: name a file to write, or --check\n");
        return 1;
    }
    const Family& family = family_of(name);
    if (tokens == 0) tokens = family.tokens;
    return write(out, routes_of(family, layers, tokens, seed), family) ? 0 : 1;
}
