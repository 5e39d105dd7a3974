// Everything a forward pass works with, in the order it has to be taken apart: readers before the
// ring, the ring before the files and the memory it reads into.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cache/expert_cache.h"
#include "cache/predictor.h"
#include "cache/route_file.h"
#include "cache/row_cache.h"
#include "engine/engine.h"
#include "engine/engram_hash.h"
#include "engine/model.h"
#include "engine/state.h"
#include "engine/weights.h"
#include "engine/workspace.h"
#include "io/checkpoint.h"
#include "io/memory.h"
#include "io/ring.h"
#include "kernels/backend.h"

namespace sluice {

struct Runtime {
    ModelConfig config;
    EngineOptions options;  // resolved
    Checkpoint checkpoint;
    Weights weights;
    std::optional<EngramHash> hash;
    std::vector<float> plain_frequencies, yarn_frequencies;

    PageBuffer embedding, row_memory, expert_memory;
    RowBuffers row_buffers;
    std::unique_ptr<Backend> backend;
    std::byte* expert_staging = nullptr;  // a device that cannot read host memory computes here

    std::optional<ExpertMap> experts;
    std::unique_ptr<ReadRing> ring;
    std::unique_ptr<ExpertCache> cache;
    std::vector<std::unique_ptr<RowCache>> rows;  // one an Engram layer

    std::unique_ptr<Predictor> predictor;
    std::unique_ptr<PrefetchGovernor> governor;
    std::unique_ptr<RouteRecorder> recorder;

    std::optional<Workspace> workspace;
    std::optional<State> state;
};

}  // namespace sluice
