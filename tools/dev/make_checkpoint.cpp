// Writes a checkpoint of any shape in the release's layout, from a seed: for benchmarks and soak
// tests that need full-size experts, not meaning.
//
//   make_checkpoint OUT --tokenizer MODEL_FOLDER [--layers N] [--experts N] [--hidden N] ...
//   [--verify]
//
// One shard for the embedding, one for the head and one a layer; tensors of a shard by dtype, then
// by name. Codes are random, scales make every linear keep the size of its input, so that
// activations stay finite. The same seed and shape give the same bytes. --verify reads everything
// back and compares.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "engine/engram_hash.h"
#include "engine/model.h"
#include "engine/tokenizer.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/text.h"
#include "tools/dev/checkpoint_shape.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;

constexpr size_t block_bytes = size_t{8} << 20;  // generated and written at once

struct PlannedTensor {
    std::string name, dtype;
    std::vector<uint64_t> shape;
    Storage storage;
    uint64_t offset = 0, bytes = 0;  // in the data area
};

struct Shard {
    std::string file;
    std::vector<PlannedTensor> tensors;
};

const char* tag(Storage storage) {
    switch (storage) {
        case Storage::bf16:
            return "BF16";
        case Storage::f32:
            return "F32";
        case Storage::fp8:
            return "F8_E4M3";
        case Storage::e8m0:
            return "F8_E8M0";
        case Storage::fp4:
            return "I8";
    }
    return "";
}

int rank(Storage storage) {  // order of dtypes in a shard
    switch (storage) {
        case Storage::f32:
            return 0;
        case Storage::bf16:
            return 1;
        case Storage::e8m0:
            return 2;
        case Storage::fp8:
            return 3;
        case Storage::fp4:
            return 4;
    }
    return 5;
}

uint64_t element_bytes(Storage storage) {
    return storage == Storage::f32 ? 4 : storage == Storage::bf16 ? 2 : 1;
}

// ---- values
// --------------------------------------------------------------------------------------

uint64_t mix(uint64_t x) {  // splitmix64: a counter in, 64 random bits out
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// The size of a tensor's values: 1 for norms (around 1), 1/sqrt(columns) for matrices.
struct Values {
    float center = 0, spread = 0;  // uniform in center +- spread
    uint8_t scale = 127;           // E8M0 byte of scale tensors
};

// A scale tensor belongs to the weight of the same name; both know the row length.
Values values_of(const PlannedTensor& t, uint64_t columns) {
    Values v;
    double target = 1 / std::sqrt(static_cast<double>(columns));
    // Root mean square of random codes: E2M1 nibbles 2.9, the E4M3 codes used here 1.1.
    bool fp4 = contains(t.name, ".ffn.experts.");
    v.scale = static_cast<uint8_t>(127 + std::lround(std::log2(target / (fp4 ? 2.9 : 1.1))));
    if (contains(t.name, "engram.embed")) v.scale = 127;
    if (contains(t.name, "norm")) {
        v.center = 1, v.spread = 0.1f;
    } else if (contains(t.name, "_scale") || contains(t.name, "_weight")) {
        v.center = 1, v.spread = 0.1f;  // hyper-connection scales, Engram gates
    } else if (t.shape.size() == 1) {
        v.spread = 0.1f;  // biases, sinks
    } else {
        v.spread = static_cast<float>(target * std::sqrt(3.0));
    }
    if (t.name == "embed.weight") v.spread = 1;
    return v;
}

float uniform(uint32_t bits, const Values& v) {
    return v.center + v.spread * (static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
}

uint16_t bf16_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>((bits + 0x8000) >> 16);
}

// `count` bytes of a tensor from byte `at` (a multiple of 8) on; `key` is the tensor's own.
void fill(const PlannedTensor& t, const Values& v, uint64_t key, uint64_t at, std::byte* out,
          size_t count) {
    if (t.storage == Storage::e8m0) {
        std::memset(out, v.scale, count);
        return;
    }
    for (size_t i = 0; i < count; i += 8) {
        uint64_t bits = mix(key + (at + i) / 8);
        uint64_t word = bits;
        if (t.storage == Storage::fp8) {
            // Exponents around 1, any sign and mantissa: never NaN.
            word = (bits & 0x8f8f8f8f8f8f8f8fu) | 0x3030303030303030u;
        } else if (t.storage == Storage::bf16) {
            word = 0;
            for (int k = 0; k < 4; k++) {
                auto part = static_cast<uint32_t>(bits >> (16 * k)) << 16;
                word |= uint64_t{bf16_bits(uniform(part, v))} << (16 * k);
            }
        } else if (t.storage == Storage::f32) {
            float pair[2] = {uniform(static_cast<uint32_t>(bits), v),
                             uniform(static_cast<uint32_t>(bits >> 32), v)};
            std::memcpy(&word, pair, 8);
        }
        std::memcpy(out + i, &word, std::min<size_t>(8, count - i));
    }
}

// ---- layout
// --------------------------------------------------------------------------------------

PlannedTensor planned(std::string name, Storage storage, std::vector<uint64_t> shape) {
    uint64_t bytes = element_bytes(storage);
    for (uint64_t size : shape) bytes *= size;
    return {std::move(name), tag(storage), std::move(shape), storage, 0, bytes};
}

std::vector<Shard> plan_shards(const ModelConfig& config, const ModelDescription& model) {
    Weights weights;
    std::map<int, std::vector<PlannedTensor>> groups;  // -2: embedding, -1: head, else the layer
    for (const auto& spec : model.describe(config, weights)) {
        int group = spec.name == "embed.weight" ? -2 : -1;
        if (spec.name.rfind("layers.", 0) == 0) group = std::atoi(spec.name.c_str() + 7);
        groups[group].push_back(planned(spec.name, spec.storage, spec.shape));
    }
    auto shapes = expert_shapes(config);
    for (int32_t layer = 0; layer < config.layers; layer++) {
        for (int32_t expert = 0; expert < config.experts; expert++) {
            for (int part = 0; part < expert_parts; part++) {
                const auto& [storage, shape] = shapes[static_cast<size_t>(part)];
                groups[layer].push_back(
                    planned(model.expert_name({layer, expert}, static_cast<ExpertPart>(part)),
                            storage, {shape.begin(), shape.end()}));
            }
        }
    }
    std::vector<Shard> shards;
    for (auto& [group, tensors] : groups) {
        std::sort(
            tensors.begin(), tensors.end(), [](const PlannedTensor& a, const PlannedTensor& b) {
                return std::pair(rank(a.storage), a.name) < std::pair(rank(b.storage), b.name);
            });
        uint64_t offset = 0;
        for (auto& tensor : tensors) tensor.offset = std::exchange(offset, offset + tensor.bytes);
        char name[64];
        std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shards.size() + 1,
                      groups.size());
        shards.push_back({name, std::move(tensors)});
    }
    return shards;
}

std::string header_text(const Shard& shard) {
    std::string text = "{\"__metadata__\":{\"format\":\"pt\"}";
    for (const auto& t : shard.tensors) {
        std::string shape;
        for (uint64_t size : t.shape) shape += cat(shape.empty() ? "" : ",", size);
        text += cat(",\"", t.name, "\":{\"dtype\":\"", t.dtype, "\",\"shape\":[", shape,
                    "],\"data_offsets\":[", t.offset, ",", t.offset + t.bytes, "]}");
    }
    text += "}";
    text.append((8 - text.size() % 8) % 8, ' ');
    return text;
}

// Row length in elements: what the scale of values depends on.
std::map<std::string, uint64_t> columns_of(const std::vector<Shard>& shards) {
    std::map<std::string, uint64_t> out;
    for (const auto& shard : shards) {
        for (const auto& t : shard.tensors) {
            uint64_t last = t.shape.back();
            if (t.storage == Storage::fp4) last *= 2;
            if (t.storage == Storage::e8m0) last *= 32;
            out[t.name] = last;
        }
    }
    return out;
}

// ---- writing and checking
// ------------------------------------------------------------------------

bool whole(ssize_t (*call)(int, std::byte*, size_t, off_t), int fd, std::byte* data, size_t size,
           off_t offset) {
    while (size > 0) {
        ssize_t count = call(fd, data, size, offset);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        data += count, offset += count, size -= static_cast<size_t>(count);
    }
    return true;
}

ssize_t put(int fd, std::byte* data, size_t size, off_t offset) {
    return ::pwrite(fd, data, size, offset);
}
ssize_t get(int fd, std::byte* data, size_t size, off_t offset) {
    return ::pread(fd, data, size, offset);
}

// One shard, block by block; verify compares instead of writing.
bool run_shard(const fs::path& folder, const Shard& shard,
               const std::map<std::string, uint64_t>& columns, uint64_t seed, bool verify) {
    std::string path = (folder / shard.file).string();
    int fd = ::open(path.c_str(), verify ? O_RDONLY : O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return std::fprintf(stderr, "%s: %s\n", path.c_str(), std::strerror(errno)), false;
    std::vector<std::byte> made(block_bytes), found(verify ? block_bytes : 0);
    bool good = true;
    auto step = [&](size_t size, off_t offset) {
        good = good &&
               whole(verify ? get : put, fd, verify ? found.data() : made.data(), size, offset);
        good = good && (!verify || std::memcmp(made.data(), found.data(), size) == 0);
    };
    std::string header = header_text(shard);
    uint64_t length = header.size();
    made.resize(std::max(made.size(), header.size() + 8));
    if (verify) found.resize(made.size());
    std::memcpy(made.data(), &length, 8);
    std::memcpy(made.data() + 8, header.data(), header.size());
    step(header.size() + 8, 0);
    for (const auto& t : shard.tensors) {
        Values values = values_of(t, columns.at(t.name));
        uint64_t key = mix(seed ^ checksum(t.name.data(), t.name.size()));
        for (uint64_t at = 0; at < t.bytes && good; at += block_bytes) {
            size_t size = static_cast<size_t>(std::min<uint64_t>(block_bytes, t.bytes - at));
            fill(t, values, key, at, made.data(), size);
            step(size, static_cast<off_t>(8 + header.size() + t.offset + at));
        }
        if (!good)
            std::fprintf(stderr, "%s: %s: %s\n", path.c_str(), t.name.c_str(),
                         verify ? "differs" : std::strerror(errno));
        if (!good) break;
    }
    return ::close(fd) == 0 && good;
}

bool run_shards(const fs::path& folder, const std::vector<Shard>& shards, uint64_t seed,
                bool verify) {
    auto columns = columns_of(shards);
    std::atomic<size_t> next{0};
    std::atomic<bool> good{true};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); i++) {
        threads.emplace_back([&] {
            for (size_t n = next++; n < shards.size() && good; n = next++)
                if (!run_shard(folder, shards[n], columns, seed, verify)) good = false;
        });
    }
    for (auto& thread : threads) thread.join();
    return good;
}

bool write_text(const fs::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
    return static_cast<bool>(file);
}

std::string index_text(const std::vector<Shard>& shards, uint64_t total) {
    std::string map;
    for (const auto& shard : shards) {
        for (const auto& t : shard.tensors)
            map += cat(map.empty() ? "" : ",\n", "  \"", t.name, "\": \"", shard.file, "\"");
    }
    return cat("{\n \"metadata\": {\"total_size\": ", total, "},\n \"weight_map\": {\n", map,
               "\n }\n}\n");
}

// ---- the config that fits the tokenizer
// ----------------------------------------------------------

Result<Vocabulary> read_vocabulary(const fs::path& folder) {
    auto text = read_text(folder / "config.json", 1 << 20);
    if (!text) return tl::unexpected(text.error());
    auto config = Json::parse(*text);
    if (!config) return tl::unexpected(config.error());
    Json fields = (*config)["text_config"];
    auto size = fields["vocab_size"].integer();
    auto compressed = fields["engram_compressed_vocab_size"].integer();
    auto bos = (*config)["bos_token_id"].integer(), eos = (*config)["eos_token_id"].integer();
    auto pad = (*config)["pad_token_id"].integer();
    for (const auto* value : {&size, &compressed, &bos, &eos, &pad}) {
        if (!*value) return within((folder / "config.json").string(), value->error());
    }
    return Vocabulary{*size, *compressed, *bos, *eos, *pad};
}

// Checked against the tokenizer, so that a mistake shows here and not when the model is loaded.
Result<std::string> make_config(const Shape& shape, const fs::path& folder) {
    auto vocabulary = read_vocabulary(folder);
    if (!vocabulary) return tl::unexpected(vocabulary.error());
    auto tokenizer = Tokenizer::load(folder / "tokenizer.json");
    if (!tokenizer) return tl::unexpected(tokenizer.error());
    std::string text = config_text(shape, *vocabulary);
    auto config = parse_config(text, "");
    if (!config) return tl::unexpected(config.error());
    auto map = compressed_token_map(*tokenizer, *config);
    if (!map) return tl::unexpected(map.error());
    return text;
}

void add_options(CLI::App& app, Shape& s) {
    auto number = [&](const char* name, int& value) {
        app.add_option(name, value)->check(CLI::PositiveNumber);
    };
    number("--layers", s.layers), number("--experts", s.experts), number("--top-k", s.top_k);
    number("--hidden", s.hidden), number("--moe", s.moe), number("--heads", s.heads);
    number("--head-dim", s.head_dim), number("--rope-dim", s.rope_dim);
    number("--q-rank", s.q_rank), number("--o-rank", s.o_rank), number("--o-groups", s.o_groups);
    number("--window", s.window), number("--index-heads", s.index_heads);
    number("--index-dim", s.index_dim), number("--index-topk", s.index_topk);
    number("--context", s.context), number("--engram-vocab", s.engram_vocab);
    number("--engram-heads", s.engram_heads), number("--engram-dim", s.engram_dim);
    app.add_option("--seed", s.seed);
}

int run(const Shape& shape, const fs::path& out, const fs::path& tokenizer, bool verify) {
    auto say = [](const Error& error) {
        return std::fprintf(stderr, "%s\n", error.message.c_str()), 1;
    };
    auto text = make_config(shape, tokenizer);
    if (!text) return say(text.error());
    auto config = parse_config(*text, "");
    if (!config) return say(config.error());
    auto model = find_model(config->model_type);
    if (!model) return say(model.error());
    auto shards = plan_shards(*config, **model);
    uint64_t total = 0;
    for (const auto& shard : shards)
        for (const auto& tensor : shard.tensors) total += tensor.bytes;
    std::error_code error;
    fs::create_directories(out, error);
    if (!verify) {
        fs::copy_file(tokenizer / "tokenizer.json", out / "tokenizer.json",
                      fs::copy_options::overwrite_existing, error);
        bool written = !error && write_text(out / "config.json", *text) &&
                       write_text(out / "model.safetensors.index.json", index_text(shards, total));
        if (!written) return 1;
    }
    if (!run_shards(out, shards, shape.seed, verify)) return 1;
    std::printf("%s: %zu shards, %s%s\n", out.c_str(), shards.size(), size_text(total).c_str(),
                verify ? ", as the seed says" : "");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    // The preset is the start that the other flags change, so it is looked for first.
    Shape shape;
    for (int i = 1; i + 1 < argc; i++) {
        if (std::strcmp(argv[i], "--shape") == 0 &&
            std::strcmp(argv[i + 1], "deepseek-v4.1-flash") == 0)
            shape = flash_shape();
    }
    CLI::App app("Writes a checkpoint of random weights in the release's layout");
    std::string out, tokenizer, preset;
    bool verify = false;
    app.add_option("OUT", out, "Folder to write")->required();
    app.add_option("--tokenizer", tokenizer, "Model folder whose tokenizer and vocabulary are used")
        ->required();
    app.add_option("--shape", preset)->check(CLI::IsMember({"deepseek-v4.1-flash"}));
    app.add_flag("--verify", verify, "Read back and compare instead of writing");
    add_options(app, shape);
    CLI11_PARSE(app, argc, argv);
    return run(shape, out, tokenizer, verify);
}
