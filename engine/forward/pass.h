// One pass through the model: one token in a decode step, otherwise a chunk of a prompt. Only what
// leads a pass through the layers knows a whole Pass (forward.cpp, layer_steps.cpp,
// chunked_prompt.cpp, and the layer.cpp of each model); a part is given what it may touch.
#pragma once

#include <cstdint>
#include <span>

#include "engine/forward/checkpoints.h"
#include "engine/forward/head.h"
#include "engine/forward/layer_context.h"
#include "engine/forward/layer_engram.h"
#include "engine/forward/layer_index.h"
#include "engine/forward/prefetch.h"
#include "engine/forward/runtime.h"
#include "engine/forward/streams.h"

namespace sluice {

struct Pass {
    // ---- set by the caller; referenced objects outlive the pass
    Runtime& runtime;
    Workspace& workspace;  // of its own, if several chunks go through each layer together
    State& state;
    Positions at;
    PassOrder order{};
    Pass* next = nullptr;  // the chunk of the group behind this one
    EngramRows rows{};     // `ids` and `before` are the tokens of the pass
    Wanted wanted{};
    RouteLog routes{};
    Checkpoints* checkpoints = nullptr;  // null: none
    PassHooks hooks;

    // ---- made by begin_pass(), changed from layer to layer
    RopeTable plain{}, yarn{};
    Streams streams{};
    SelectedRows selected{};

    TokenRoutes known() const { return {runtime.config, runtime.weights, rows.ids}; }
};

}  // namespace sluice
