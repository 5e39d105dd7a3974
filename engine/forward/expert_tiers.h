// Where routed experts are held and computed: a cache in RAM that reads them from the drives, a
// cache in VRAM before it, and the CPU, which computes some of them while others are uploaded. Also
// what guesses which experts come next. Lives as long as the model; engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "cache/device_experts.h"
#include "cache/expert_cache.h"
#include "cache/predictor.h"
#include "cache/prefetch_governor.h"
#include "engine/forward/cpu_experts.h"
#include "engine/forward/layer_context.h"
#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

// A RAM slot that an upload still reads.
struct Uploading {
    ExpertHandle handle;
    uint64_t bytes;
    uint64_t mark;  // Backend::uploads_done
    int64_t begin;  // spans::now()
};

struct ExpertTiers {
    std::unique_ptr<ExpertCache> cache;
    // Only for a device with memory of its own; null: experts are computed from RAM.
    std::unique_ptr<DeviceExperts> device;
    std::deque<Uploading> uploading;  // oldest first
    size_t uploading_max = 1;
    std::unique_ptr<CpuExperts> cpu;  // null: off

    std::unique_ptr<Predictor> predictor;
    std::unique_ptr<PrefetchGovernor> governor;  // null: the number of guesses is fixed
    double drives_per_layer = 1;                 // that hold experts of one layer, on average
};

// Gives back RAM slots whose upload is over. Waits until fewer than `room` are held.
Result<void> release_uploaded(ExpertTiers& tiers, Backend& device, size_t room);
// Waits for all uploads.
Result<void> finish_uploads(ExpertTiers& tiers, Backend& device);

// Waits for the device's compute so far while reads and uploads go on: in a prompt a layer takes a
// device longer than the reads that are in flight. Nothing to wait for on a backend in host memory.
Result<void> keep_reading(ExpertTiers& tiers, Backend& device, const PassHooks& hooks);

// After a failure: waits until nothing is in flight, and gives everything back.
void give_up_experts(ExpertTiers& tiers, Backend& device);

}  // namespace sluice
