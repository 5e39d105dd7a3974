// A loaded model and what runs it, for as long as the engine lives. The members stand in the order
// in which they are built, so that they are destroyed in reverse: what reads before the read ring,
// the ring before the files and the memory that it reads into.
//
// Layer functions never see a Runtime: layer.cpp gives each of them its part.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cache/route_file.h"
#include "engine/forward/expert_tiers.h"
#include "engine/forward/layer_engram.h"
#include "engine/forward/prefetch.h"
#include "engine/forward/state.h"
#include "engine/forward/workspace.h"
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

struct Runtime {
    const ModelDescription* model = nullptr;  // of the table in engine/model/models.cpp
    ModelConfig config;
    EngineOptions options;  // as asked
    Settings settings;      // as used
    Checkpoint checkpoint;
    Weights weights;
    std::vector<float> plain_frequencies, yarn_frequencies;

    // Host memory: the embedding, what Engram reads, the slots of experts, the chunk store.
    PageBuffer embedding, row_memory, expert_memory, chunk_memory;
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Backend> head_backend;  // the CPU, where the head does not fit the device
    double host_s = 0;                      // seconds the CPU computed beside the device

    std::optional<ExpertMap> experts;
    std::unique_ptr<ReadRing> ring;
    ExpertTiers tiers;
    EngramTables engram;
    std::unique_ptr<RouteRecorder> recorder;  // null: no route file

    std::optional<Workspace> workspace;
    std::optional<ChunkStore> chunk_store;  // none: chunks go through all layers one by one
    std::optional<State> state;

    bool warm_start() const { return options.warm_start && !recorder; }
    PrefetchLimits prefetch_limits() const {
        return {options.overlap != Overlap::none, options.prefetch.value_or(0)};
    }
};

}  // namespace sluice
