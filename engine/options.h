// What a caller asks of an engine, before anything is resolved: the folders, the device, the
// budgets.
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
    // The first option given that has no effect on the CPU, as errors name it; empty: none.
    std::string gpu_option;
    std::optional<uint32_t> cache_slots;  // exact number, 0 = off; else what the budget leaves
    std::string cache_policy = default_policy;
    std::string predictor = default_predictor;
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

}  // namespace sluice
