// What a caller asks of an engine: folders, device, budgets. The values chosen for what was left
// open are in settings.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/policy.h"
#include "cache/predictor.h"
#include "io/checkpoint/expert_map.h"
#include "io/error.h"
#include "io/ring/ring.h"
#include "kernels/backend.h"

namespace sluice {

// What overlaps; less than full is for benchmarks, to show what each step gains. none: a layer's
// experts are read, then computed. prompt_path: reads overlap computing, and a decoded token is
// treated as a prompt of one. full: decode also has its own order and its own use of the cache.
enum class Overlap { none, prompt_path, full };

// How experts are read fastest is measured once and remembered, never, or again and at length.
enum class Calibrate { automatic, off, thorough };

enum class IndexKeys { own, reference };  // reference: deepseek-v41.md section 3.7

struct EngineOptions {
    std::vector<std::string> locations;  // model folders or a Hugging Face id
    std::string revision;
    std::vector<std::string> mirrors;  // folders with copies of shards
    std::string device = "auto";       // "auto", "cpu", "cuda", "cuda:N"
    CpuIsa isa = CpuIsa::automatic;
    int threads = 0;
    IoEngine io = IoEngine::automatic;
    std::vector<DrivePace> paces;  // simulated drives: one for all, or one each in folder order
    uint32_t ring_depth = 64;      // reads in flight per drive
    ExpertTuning tuning;
    bool tuning_given = false;  // by the user, so not measured
    Calibrate calibrate = Calibrate::automatic;
    uint64_t ram = 0;                             // bytes; 0: default_ram_budget()
    uint64_t vram = 0;                            // bytes; 0: free now minus a margin
    std::optional<bool> graphs, kernels_overlap;  // CudaOptions
    bool skip_selftest = false;                   // of the GPU's kernels, on first use
    std::optional<uint32_t> vram_slots;           // experts in VRAM; else what its budget leaves
    std::optional<uint32_t>
        cpu_experts;         // percent of experts not in VRAM, 0 = off; else by measured speed
    uint64_t link_rate = 0;  // simulated speed of the link in bytes per second; 0: the real one
    // The first option given that has no effect on the CPU, as errors name it; empty: none.
    std::string gpu_option;
    std::optional<uint32_t> cache_slots;  // experts in RAM, 0 = off; else what the budget leaves
    std::string cache_policy = default_policy;
    std::string predictor = default_predictor;
    Overlap overlap = Overlap::full;
    std::optional<uint32_t>
        prefetch;         // experts prefetched per layer, 0 = off; else adjusted as it pays
    // RAM for so many snapshots of a full context (engine/prompt_cache); less where it is scarce.
    uint32_t prompt_snapshots = 0;
    int32_t context = 0;  // tokens; 0: min(model, 8192)
    // Prompt tokens at once; 0: what fits, at most 2048 on the CPU, 4096 on a GPU.
    int32_t chunk = 0;
    IndexKeys index_keys = IndexKeys::own;
    std::string record_routes;  // file, or empty
    // Read the experts that the last run of this model kept, in the background, and remember those
    // of this run. Not while routes are recorded: their replay begins with an empty cache.
    bool warm_start = false;
    uint64_t seed = 0;
    // Called before reads are measured at length, with the approximate seconds; may be empty.
    std::function<void(double seconds)> measuring;
    // Tests: instead of the device by name.
    std::function<Result<std::unique_ptr<Backend>>()> open_device;
};

}  // namespace sluice
