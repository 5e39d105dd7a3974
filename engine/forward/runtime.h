// Everything a forward pass works with, in the order it has to be taken apart: readers before the
// ring, the ring before the files and the memory it reads into.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "cache/device_experts.h"
#include "cache/expert_cache.h"
#include "cache/predictor.h"
#include "cache/prefetch_governor.h"
#include "cache/route_file.h"
#include "cache/row_cache.h"
#include "engine/forward/cpu_experts.h"
#include "engine/forward/state.h"
#include "engine/forward/workspace.h"
#include "engine/model/engram_hash.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"
#include "engine/options.h"
#include "engine/settings.h"
#include "engine/stats.h"
#include "io/checkpoint/checkpoint.h"
#include "io/memory.h"
#include "io/ring/ring.h"
#include "kernels/backend.h"

namespace sluice {

struct Uploading {
    ExpertHandle handle;
    uint64_t mark;
    int64_t begin;  // spans::now()
};

struct Runtime {
    ModelConfig config;
    EngineOptions options;  // as asked
    Settings settings;      // as used
    Checkpoint checkpoint;
    Weights weights;
    std::optional<EngramHash> hash;
    std::vector<float> plain_frequencies, yarn_frequencies;

    PageBuffer embedding, row_memory, expert_memory, chunk_memory;
    RowBuffers row_buffers;
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Backend> head_backend;  // the CPU, where the head did not fit the device
    double host_s = 0;                      // what the CPU computed beside the device

    std::optional<ExpertMap> experts;
    std::unique_ptr<ReadRing> ring;
    std::unique_ptr<ExpertCache> cache;
    // A device with memory of its own only: its experts, and the RAM slots that uploads still read.
    std::unique_ptr<DeviceExperts> device_experts;
    std::deque<Uploading> uploading;
    size_t uploading_max = 1;
    std::unique_ptr<CpuExperts> cpu_experts;      // null: off
    std::vector<std::unique_ptr<RowCache>> rows;  // one an Engram layer

    std::unique_ptr<Predictor> predictor;
    std::unique_ptr<PrefetchGovernor> governor;
    double drives_a_layer = 1;  // that hold experts of one
    std::unique_ptr<RouteRecorder> recorder;

    std::optional<Workspace> workspace;
    std::optional<ChunkStore> chunk_store;  // none: chunks go through the layers one by one
    std::optional<State> state;
};

}  // namespace sluice
