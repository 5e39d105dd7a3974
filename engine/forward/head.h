// The end of a pass (deepseek-v41.md section 3.3): the streams' sum, the last norm, and the logits.
// Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/forward/layer_context.h"
#include "engine/forward/streams.h"
#include "engine/forward/workspace.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

// What is read.
struct HeadInputs {
    const ModelConfig& config;
    const Weights& weights;  // norm and head
    Positions at;
};

// What a pass is asked for.
struct Wanted {
    bool every_position = false;  // logits of every position, else of the last one
    // The id of the last position's best logit is enough: the logits may stay where they are
    // computed. Null: no. Stays unwritten where the logits come to the host anyway.
    int32_t* best = nullptr;
    // Receives the logits [vocab] of a position, valid until it returns. May be empty.
    std::function<void(int32_t position, std::span<const float>)> logits;
};

// The head on the CPU, where it does not fit the device.
struct HostHead {
    Backend* backend;  // null: the head is on the device
    double& seconds;   // grows by what it took
};

// Settles and collapses the streams. Code::numerical if a logit is not finite.
Result<void> run_head(const HeadInputs& in, const Wanted& wanted, Streams& streams,
                      const HeadBuffers& buffers, Backend& device, const HostHead& host,
                      const PassHooks& hooks);

}  // namespace sluice
