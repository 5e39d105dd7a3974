// Writes a checkpoint of any shape in the layout of a released model, with random weights from a
// seed: for benchmarks and soak tests, which need full-size experts but no sense.
//
//   make_checkpoint OUT --tokenizer MODEL_FOLDER [--shape NAME] [--layers N] [--experts N] ...
//   [--skew S] [--locality N] [--seed N] [--verify]
//
// The other flags change the shape of --shape; without one, a small shape of the first known model.
// The tokenizer's folder may be of another model than the shape.
//
// There is one shard for the embedding, one per layer, one for what follows the last layer and one
// per Engram. Tensors in a shard are sorted by dtype, then by name. The same seed and shape give
// the same bytes, whatever the number of threads. --verify, with the same flags again, reads
// everything back and compares it: exit code 1, and a line with file, tensor and byte, if something
// differs.
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

#include "engine/model/engram_hash.h"
#include "engine/model/model.h"
#include "engine/model/model_shape.h"
#include "engine/model/weight_check.h"
#include "engine/text/tokenizer.h"
#include "io/file.h"
#include "io/format.h"
#include "io/json.h"
#include "io/text.h"
#include "tools/dev/checkpoint_values.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;

constexpr size_t block_bytes = size_t{8} << 20;  // generated and written in one piece

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
        case Storage::i64:
            return "I64";
    }
    return "";
}

int rank(Storage storage) {  // order of dtypes in a shard
    switch (storage) {
        case Storage::i64:
            return 0;
        case Storage::f32:
            return 1;
        case Storage::bf16:
            return 2;
        case Storage::e8m0:
            return 3;
        case Storage::fp8:
            return 4;
        case Storage::fp4:
            return 5;
    }
    return 6;
}

// ---- layout -------------------------------------------------------------------------------------

PlannedTensor planned(std::string name, Storage storage, std::vector<uint64_t> shape,
                      uint64_t repeat = 1) {
    uint64_t bytes = value_bytes(storage);
    for (uint64_t size : shape) bytes *= size;
    return {std::move(name), tag(storage), std::move(shape), storage, 32 * repeat, 0, bytes};
}

std::vector<Shard> plan_shards(const ModelConfig& config, const ModelDescription& model) {
    Weights weights;
    // In the released order: embedding, layers, what follows the last one, the Engrams.
    std::map<int, std::vector<PlannedTensor>> groups;
    for (const auto& spec : model.describe(config, weights)) {
        int group = spec.name == "embed.weight" ? -1 : config.layers;
        if (spec.name.rfind("layers.", 0) == 0) group = std::atoi(spec.name.c_str() + 7);
        if (contains(spec.name, ".engram.")) group += config.layers + 1;
        groups[group].push_back(planned(spec.name, spec.storage, spec.shape, spec.repeat));
    }
    auto shapes = expert_shapes(config);
    for (int32_t layer = 0; layer < config.layers; ++layer) {
        for (int32_t expert = 0; expert < config.experts; ++expert) {
            for (int part = 0; part < expert_parts; ++part) {
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
        shards.push_back(
            {formatted("model-{:05}-of-{:05}.safetensors", shards.size() + 1, groups.size()),
             std::move(tensors)});
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

// ---- writing and checking -----------------------------------------------------------------------

// An open shard; its header is written or compared when it is opened.
struct OpenShard {
    int fd = -1;
    std::string path;
    uint64_t data_at = 0;
};

// A part of a tensor, from byte `at` on, that one thread makes.
struct Job {
    const OpenShard* shard;
    const PlannedTensor* tensor;
    uint64_t at;
    size_t size;
};

bool complain(const std::string& path, const std::string& what) {
    return std::fprintf(stderr, "%s: %s\n", path.c_str(), what.c_str()), false;
}

bool whole(ssize_t (*call)(int, std::byte*, size_t, off_t), int fd, std::byte* data, size_t size,
           uint64_t offset) {
    while (size > 0) {
        ssize_t count = call(fd, data, size, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = EIO;
        if (count <= 0) return false;
        data += count, offset += static_cast<uint64_t>(count), size -= static_cast<size_t>(count);
    }
    return true;
}

ssize_t put(int fd, std::byte* data, size_t size, off_t offset) {
    return ::pwrite(fd, data, size, offset);
}
ssize_t get(int fd, std::byte* data, size_t size, off_t offset) {
    return ::pread(fd, data, size, offset);
}

// Writes `made`, or, to verify, compares the file's bytes with it.
bool step(const OpenShard& shard, const char* what, std::span<std::byte> made, uint64_t offset,
          bool verify) {
    thread_local std::vector<std::byte> found;
    std::byte* data = made.data();
    if (verify) {
        found.resize(std::max(found.size(), made.size()));
        data = found.data();
    }
    if (!whole(verify ? get : put, shard.fd, data, made.size(), offset))
        return complain(shard.path, cat(what, ": ", std::strerror(errno)));
    if (verify && std::memcmp(data, made.data(), made.size()) != 0) {
        auto at = std::mismatch(made.begin(), made.end(), data).first - made.begin();
        return complain(shard.path, cat(what, ": differs at byte ",
                                        offset + static_cast<uint64_t>(at), " of the file"));
    }
    return true;
}

bool open_shard(const fs::path& folder, const Shard& shard, bool verify, OpenShard& out) {
    std::string header = header_text(shard);
    uint64_t length = header.size();
    out.data_at = 8 + length;
    out.path = (folder / shard.file).string();
    out.fd = ::open(out.path.c_str(), verify ? O_RDONLY : O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (out.fd < 0) return complain(out.path, std::strerror(errno));
    const PlannedTensor& last = shard.tensors.back();
    uint64_t size = out.data_at + last.offset + last.bytes;
    off_t found = verify ? ::lseek(out.fd, 0, SEEK_END) : static_cast<off_t>(size);
    if (found != static_cast<off_t>(size))
        return complain(out.path, cat("has ", found, " bytes, expected ", size));
    std::vector<std::byte> made(out.data_at);
    std::memcpy(made.data(), &length, 8);
    std::memcpy(made.data() + 8, header.data(), header.size());
    return step(out, "header", made, 0, verify);
}

bool run_jobs(const std::vector<Job>& jobs, const ModelShape& shape, bool verify) {
    std::atomic<size_t> next{0};
    std::atomic<bool> good{true};
    auto work = [&] {
        std::vector<std::byte> made(block_bytes);
        for (size_t n = next++; n < jobs.size() && good; n = next++) {
            const Job& job = jobs[n];
            const PlannedTensor& t = *job.tensor;
            std::span<std::byte> part(made.data(), job.size);
            fill(t, values_of(t, shape), job.at, part.data(), part.size());
            uint64_t offset = job.shard->data_at + t.offset + job.at;
            if (!step(*job.shard, t.name.c_str(), part, offset, verify)) good = false;
        }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
        threads.emplace_back(work);
    for (auto& thread : threads) thread.join();
    return good;
}

// Flushes everything to the drive, so that a benchmark does not compete with the writing.
bool close_shards(std::vector<OpenShard>& open, bool verify) {
    bool good = true;
    for (auto& shard : open) {
        if (shard.fd < 0) continue;
        bool done = verify || ::fdatasync(shard.fd) == 0;
        done = ::close(shard.fd) == 0 && done;
        if (!done) good = complain(shard.path, std::strerror(errno));
    }
    return good;
}

bool run_shards(const fs::path& folder, const std::vector<Shard>& shards, const ModelShape& shape,
                bool verify) {
    std::vector<OpenShard> open(shards.size());
    std::vector<Job> jobs;
    bool good = true;
    for (size_t i = 0; i < shards.size() && good; ++i) {
        good = open_shard(folder, shards[i], verify, open[i]);
        for (const auto& t : shards[i].tensors) {
            for (uint64_t at = 0; at < t.bytes; at += block_bytes) {
                auto size = static_cast<size_t>(std::min<uint64_t>(block_bytes, t.bytes - at));
                jobs.push_back({&open[i], &t, at, size});
            }
        }
    }
    good = good && run_jobs(jobs, shape, verify);
    return close_shards(open, verify) && good;
}

bool write_text(const fs::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) std::fprintf(stderr, "%s: cannot write this file\n", path.c_str());
    return static_cast<bool>(file);
}

bool same_text(const fs::path& path, const std::string& wanted) {
    auto found = read_text(path, wanted.size() + 1);
    if (!found) return complain(path.string(), found.error().message);
    return *found == wanted || complain(path.string(), "differs");
}

// Creates the folder, and reports before minutes of writing if it cannot hold the model.
bool room_for(const fs::path& folder, uint64_t bytes) {
    std::error_code error;
    fs::create_directories(folder, error);
    fs::space_info space = error ? fs::space_info{} : fs::space(folder, error);
    if (error) return complain(folder.string(), error.message());
    return space.available >= bytes ||
           complain(folder.string(),
                    cat("needs ", size_text(bytes), ", has ", size_text(space.available), " free"));
}

// Refuses a folder that holds a checkpoint: nothing is overwritten, nothing mixed.
bool holds_no_checkpoint(const fs::path& folder) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        const fs::path name = entry.path().filename();
        if (name.extension() != ".safetensors" && name != "config.json") continue;
        return complain(folder.string(), cat("already holds a checkpoint (", name.string(),
                                             "); choose an empty folder or remove it first"));
    }
    return true;
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

// ---- the config that fits the tokenizer ---------------------------------------------------------

// Of the model whose tokenizer is used, which may describe it in a text_config. What only the
// shape's model needs is that of its release.
Result<Vocabulary> read_vocabulary(const fs::path& folder, const Vocabulary& released) {
    auto text = read_text(folder / "config.json", 1 << 20);
    if (!text) return tl::unexpected(text.error());
    auto config = Json::parse(*text);
    if (!config) return tl::unexpected(config.error());
    const Json inner = (*config)["text_config"];
    const Json fields = inner.is_object() ? inner : *config;
    Vocabulary out = released;
    const auto read = [&](const Json& value, int64_t& to) -> Result<void> {
        auto number = value.integer();
        if (!number) return within((folder / "config.json").string(), number.error());
        to = *number;
        return {};
    };
    const Json pad = (*config)["pad_token_id"], compressed = fields["engram_compressed_vocab_size"];
    if (auto r = read(fields["vocab_size"], out.size); !r) return tl::unexpected(r.error());
    if (auto r = read((*config)["bos_token_id"], out.bos); !r) return tl::unexpected(r.error());
    if (auto r = read((*config)["eos_token_id"], out.eos); !r) return tl::unexpected(r.error());
    for (const auto& [value, to] : {std::pair(&pad, &out.pad), {&compressed, &out.compressed}}) {
        if (value->is_null()) continue;
        if (auto r = read(*value, *to); !r) return tl::unexpected(r.error());
    }
    return out;
}

// Also checks the config against the tokenizer, so that a mistake shows before the model is loaded.
Result<std::string> make_config(const FoundShape& found, const fs::path& folder) {
    auto vocabulary = read_vocabulary(folder, found.model->vocabulary);
    if (!vocabulary) return tl::unexpected(vocabulary.error());
    auto tokenizer = Tokenizer::load(folder / "tokenizer.json");
    if (!tokenizer) return tl::unexpected(tokenizer.error());
    std::string text = found.model->config_text(found.shape, *vocabulary);
    auto config = parse_config(text);
    if (!config) return tl::unexpected(config.error());
    if (config->engram_layers.empty()) return text;
    auto map = compressed_token_map(*tokenizer, *config);
    if (!map) return tl::unexpected(map.error());
    return text;
}

void add_options(CLI::App& app, ModelShape& s) {
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
    app.add_option("--skew", s.skew,
                   "The popularity of an expert falls with its rank to this power (0: all equal)")
        ->check(CLI::Range(0.0, 4.0));
    app.add_option(
           "--locality", s.locality,
           "Doublings of the attention output; more make consecutive tokens choose similar experts")
        ->check(CLI::Range(0, 8));
    app.add_option("--seed", s.seed);
}

int run(const FoundShape& found, const fs::path& out, const fs::path& tokenizer, bool verify) {
    auto say = [](const Error& error) {
        return std::fprintf(stderr, "%s\n", error.message.c_str()), 1;
    };
    auto text = make_config(found, tokenizer);
    if (!text) return say(text.error());
    auto config = parse_config(*text);
    if (!config) return say(config.error());
    auto shards = plan_shards(*config, *found.model);
    uint64_t total = 0;
    for (const auto& shard : shards)
        for (const auto& tensor : shard.tensors) total += tensor.bytes;
    if (!verify && (!holds_no_checkpoint(out) || !room_for(out, total))) return 1;
    auto words = read_text(tokenizer / "tokenizer.json", uint64_t{64} << 20);
    if (!words) return say(words.error());
    const std::pair<const char*, std::string> texts[] = {
        {"config.json", *text},
        {"model.safetensors.index.json", index_text(shards, total)},
        {"tokenizer.json", *words}};
    for (const auto& [name, wanted] : texts)
        if (!(verify ? same_text(out / name, wanted) : write_text(out / name, wanted))) return 1;
    if (!run_shards(out, shards, found.shape, verify)) return 1;
    std::printf("%s: %zu shards, %s%s\n", out.c_str(), shards.size(), size_text(total).c_str(),
                verify ? ", verified" : "");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    FoundShape found{known_models().front(), {}};
    CLI::App app("Writes a checkpoint of random weights in the layout of a released model");
    std::string out, tokenizer, preset;
    bool verify = false;
    app.add_option("OUT", out, "Folder to write")->required();
    app.add_option("--tokenizer", tokenizer, "Model folder whose tokenizer and vocabulary are used")
        ->required();
    app.add_option("--shape", preset, "The shape that the other flags change")
        ->check(CLI::IsMember(shape_names()));
    app.add_flag("--verify", verify, "Read back and compare instead of writing");
    add_options(app, found.shape);
    CLI11_PARSE(app, argc, argv);
    if (preset.empty()) return run(found, out, tokenizer, verify);
    // Now that the preset is known, the flags change it.
    found = *find_shape(preset);
    CLI11_PARSE(app, argc, argv);
    return run(found, out, tokenizer, verify);
}
