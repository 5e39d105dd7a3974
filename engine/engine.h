// The two nouns a front-end sees: Engine (a loaded model, immutable) and Session (one timeline of
// tokens).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/budget.h"
#include "cache/stats.h"
#include "engine/model/config.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"
#include "io/checkpoint/expert_reader.h"
#include "io/ring/ring.h"
#include "kernels/backend.h"

namespace sluice {

// What runs beside what; less than full is for benches, to show what each step gains. none: a
// layer's experts are read, then computed. prompt_path: reads beside compute, a single token as a
// prompt of one. full: decode has its own order and its own use of the cache, too.
enum class Overlap { none, prompt_path, full };

// Of how experts are read: once and remembered, not at all, or at length and anew.
enum class Calibrate { automatic, off, thorough };

enum class IndexKeys { own, reference };  // reference: the official decode quirk (section 3.7)

struct EngineOptions {
    std::vector<std::string> locations;  // model folders or a hub id
    std::string revision;
    std::vector<std::string> mirrors;  // folders with copies of shards
    std::string device = "auto";       // "auto", "cpu", "cuda", "cuda:N"
    CpuIsa isa = CpuIsa::automatic;
    int threads = 0;
    IoEngine io = IoEngine::automatic;
    std::vector<DrivePace> paces;  // of a paced io: one for all drives, or one each, in order given
    uint32_t ring_depth = 64;      // reads in flight, a drive
    ExpertTuning tuning;
    bool tuning_given = false;  // as the user says: not to be measured
    Calibrate calibrate = Calibrate::automatic;
    uint64_t ram = 0;                             // bytes; 0: default_ram_budget()
    uint64_t vram = 0;                            // bytes; 0: free now minus a margin
    std::optional<bool> graphs, kernels_overlap;  // CudaOptions
    bool skip_selftest = false;                   // of a card's kernels, at their first start
    std::optional<uint32_t> vram_slots;   // expert cache in VRAM; else what its budget leaves
    std::optional<uint32_t> cpu_experts;  // percent of what is not in VRAM, 0 = off; else by rates
    uint64_t link_rate = 0;  // bytes a second the link to the device is held to; 0: as it is
    std::optional<uint32_t> cache_slots;  // exact number, 0 = off; else what the budget leaves
    std::string cache_policy = "aging-lru";
    std::string predictor = "router";
    Overlap overlap = Overlap::full;
    std::optional<uint32_t> prefetch;  // guesses a layer, 0 = off; else governed
    int32_t context = 0;               // tokens; 0: min(model, 8192)
    // Prompt tokens at once; 0: what fits, at most 2048, on a card 4096.
    int32_t chunk = 0;
    IndexKeys index_keys = IndexKeys::own;
    std::string record_routes;  // file, or empty
    uint64_t seed = 0;
    // Told before reads are measured at length, with about how many seconds that takes; may be
    // empty.
    std::function<void(double seconds)> measuring;
    // Tests: instead of the device by name.
    std::function<Result<std::unique_ptr<Backend>>()> open_device;
};

// Experts beside a device with memory of its own.
struct CpuExpertStats {
    uint64_t asked = 0;            // not in VRAM, in passes the CPU may take part in
    uint64_t computed = 0;         // of those, by the CPU
    double seconds = 0;            // of the CPU
    double link_s = 0, cpu_s = 0;  // latest averages an expert; 0: not measured
    uint64_t expert_bytes = 0;
};

// What a run did, for --stats, --json and the last line.
struct RunStats {
    CacheStats cache;
    RingStats ring;
    std::vector<DriveStats> drives;  // by number: folders as given, mirrors last
    uint64_t expert_bytes = 0;       // read from the drive
    uint64_t row_bytes = 0;
    uint64_t rows_asked = 0, row_hits = 0;
    uint64_t prompt_tokens = 0, decode_tokens = 0;
    double prompt_s = 0, decode_s = 0;
    CacheStats vram;  // the expert tier in VRAM; its misses are the RAM tier's asked
    CpuExpertStats cpu;
    Backend::Counters device;  // launches, waits, downloads, uploads, peak
    double compute_s = 0;      // of those, not spent waiting for the drive
    double host_s = 0;         // beside a device with memory of its own: the CPU's kernels
};

// What happened between two readings of a session's stats.
RunStats operator-(RunStats later, const RunStats& earlier);

// Sees (and may replace) tensors of the forward pass: dumps and layer tests. Host copies; slow.
class Probe {
 public:
    virtual ~Probe() = default;
    // Names as in golden dumps: "h_in", "attn_in", "qr", "latent", "topk_rows", "candidates",
    // "attn_out", "ffn_in", "route_ids", "route_w", "ffn_out", "h", "pre", "engram_rows",
    // "engram_out"; layer -1: "embed", "final_norm_out", "logits". Values as fp32 (exact for bf16)
    // or int64.
    virtual void floats(int32_t layer, std::string_view name, std::span<const float> values) {
        (void)layer, (void)name, (void)values;
    }
    virtual void integers(int32_t layer, std::string_view name, std::span<const int64_t> values) {
        (void)layer, (void)name, (void)values;
    }
    // Before a layer's first mix, after Engram: h [n][H][D] and pre [n][H]; true if changed.
    virtual bool replace(int32_t layer, std::span<float> h, std::span<float> pre) {
        (void)layer, (void)h, (void)pre;
        return false;
    }
};

// How the start went.
struct LoadFacts {
    uint64_t bytes = 0;  // of dense weights read
    double seconds = 0;
    double drive_bytes_s = 0;  // of all drives together, paced or measured; 0: not known
    std::string reads;         // how experts are read, and why so
};

class Session;

class Engine {
 public:
    // `progress` (may be empty) is told bytes done and in all; `cancel` (may be null) stops
    // loading.
    static Result<std::unique_ptr<Engine>> load(
        const EngineOptions& options, const std::function<void(uint64_t, uint64_t)>& progress = {},
        const std::atomic<bool>* cancel = nullptr);
    ~Engine();
    const ModelConfig& config() const;
    const Tokenizer& tokenizer() const;
    const EngineOptions& options() const;  // as resolved: device, context, chunk, slots
    std::string model_name() const;        // of its folder
    std::string device_name() const;
    std::string io_name() const;  // "io_uring, O_DIRECT" and the cause of a fallback
    LoadFacts load_facts() const;
    const std::vector<BudgetLine>& placement() const;
    const std::vector<std::string>& notes() const;  // unused tensors by class, fallbacks
    uint64_t expert_bytes() const;                  // of one
    Result<std::unique_ptr<Session>> session();     // one at a time

    struct Impl;

 private:
    Engine();
    std::unique_ptr<Impl> impl_;
    friend class Session;
};

class Session {
 public:
    ~Session();
    // Feeds ids at the current position, in chunks of options().chunk, which go through each layer
    // together as far as RAM keeps them and where that reads fewer experts, and returns the logits
    // [vocab] of the last one, valid until the next call. `each` (may be empty) is told the logits
    // of every position. On Code::interrupted (cancel), io or numerical errors the session's
    // position is back where it was before the call, its state as then.
    Result<std::span<const float>> feed(
        std::span<const int32_t> ids,
        const std::function<void(int32_t position, std::span<const float>)>& each = {});
    // The same, but only the id of the best logit of the last one, the lowest among equals: where
    // the head is on a card, the logits stay there.
    Result<int32_t> feed_best(std::span<const int32_t> ids);
    int32_t position() const;
    const std::vector<int32_t>& tokens() const;  // all fed so far
    // Makes the session hold exactly `ids` minus the last: keeps the common prefix if state allows,
    // else starts again; returns how many were kept. Then feed() the rest.
    Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids);
    void reset();
    void set_cancel(const std::atomic<bool>* cancel);
    void set_probe(Probe* probe);  // chunks go one after another then
    void set_progress(
        std::function<void(double done)> progress);  // share of a feed, by layers to go through
    const RunStats& stats() const;
    void clear_stats();
    // At the end: what --record-routes names is whole. An error (io) if it could not be written.
    Result<void> keep_routes();
    // After an answer: corrupt if a file of the model changed since it was opened.
    Result<void> files_unchanged() const;

    struct Impl;

 private:
    friend class Engine;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
