// Mixture of experts (deepseek-v41.md section 3.9, deepseek-v4.md section 3.5): routes the tokens, asks the tiers for the
// chosen experts, and computes each of them where and when it is there. The order of arrival never
// shows: every partial result has its own place, and one sum adds them in ascending expert id.
//
// Shapes: n tokens, k experts per token, D wide, F wide inside an expert. Device memory where
// nothing else is said. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/forward/expert_tiers.h"
#include "engine/forward/layer_context.h"
#include "engine/forward/prefetch.h"
#include "engine/forward/streams.h"
#include "engine/forward/token_routes.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "io/checkpoint/expert_reader.h"
#include "io/ring/ring.h"
#include "kernels/backend.h"

namespace sluice {

// What is read.
struct ExpertsInputs {
    const ModelConfig& config;
    const LayerWeights& weights;  // gate, gate_bias, shared_w1, shared_w2, shared_w3
    const LayerWeights* next;  // the next layer's, whose router makes guesses; null: none follows
    int32_t layer;
    Positions at;
    const TokenRoutes& known;  // of this pass
    const bf16* x;             // [n][D], the sub-layer's input
    QuantRows xq;           // x quantised; behind the routes, see exchange_places()
    const bf16* collapsed;  // [n][D], x before its norm
    const ExpertMap& map;   // where the tensors of an expert lie in a slot
    const RingStats& reads;
    PassOrder order;
    PrefetchLimits limits;
};

// Routes and quantised rows lie side by side, so that one download brings both to the host where
// the CPU computes experts too.
struct ExchangePlaces {
    uint64_t codes, scales, end;  // bytes from the routes
};
ExchangePlaces exchange_places(const ModelConfig& config, int32_t n);

// Dead when the output is summed.
struct ExpertScratch {
    int32_t* routes;  // [n][k] ids, then [n][k] fp32 weights
    GuessScratch guess;
    // Host memory that the device reads in place:
    int32_t *rows, *slots;                   // [n * k]
    float* weights;                          // [n * k]
    bf16* partial;                           // [n][k][D]
    bf16 *shared, *shared_gate, *shared_up;  // [n][D], [n][F], [n][F]
    QuantRows shared_act;                    // [n][F]
};

// Before experts() of a layer whose routes are known, and before anything of it is computed: brings
// them to the device.
void bring_routes(const TokenRoutes& known, int32_t layer, const ExpertScratch& scratch,
                  Backend& device);

// Returns the parts of the sub-layer's output, in the scratch. Errors: a failed read (io), scores
// that are not finite (numerical), the user (interrupted); nothing is in flight or held afterwards.
Result<ExpertOutput> experts(const ExpertsInputs& in, const ExpertScratch& scratch,
                             ExpertTiers& tiers, RouteLog& log, Backend& device,
                             const PassHooks& hooks);

}  // namespace sluice
