// Experts that are read before the router of their layer has chosen.
//
// A prompt needs nearly all experts of a layer: they are read in file order while the layer before
// is computed (read ahead). A decode step needs few: the next layer's router, applied to this
// layer's state, guesses which (prefetch). Where the token ids say which experts a layer needs
// (token_routes.h), exactly those are read. None of this changes a result. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/expert_tiers.h"
#include "engine/forward/token_routes.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

// A pass among the passes of its feed.
struct PassOrder {
    bool prompt = false;         // experts in file order, no guesses; false: a decode step
    bool group_follows = false;  // another chunk of the group comes to a layer right after this one
    std::span<const int32_t> next_ids;  // of the pass that begins at layer 0 after this one
};

// How far reads may run ahead of the routers.
struct PrefetchLimits {
    bool overlap = true;   // reads go on while layers are computed
    uint32_t guesses = 0;  // per layer, where no governor decides
};

// What the routers of a pass chose, and what was guessed.
struct RouteLog {
    bool recording = false;                     // for a route file:
    std::vector<std::vector<int32_t>> chosen;   // [layers][n * k]
    std::vector<std::vector<int32_t>> guesses;  // [layers][k] of a decode step, else empty

    std::vector<int32_t> guessed;  // for the next layer and not in RAM, best first
};

// ---- a prompt

// The tokens of `known`, `n` of them, are about to enter layer 0.
void read_ahead_first(const TokenRoutes& known, const ModelConfig& config, int32_t n,
                      const PassOrder& order, const PrefetchLimits& limits, ExpertTiers& tiers);
// `layer` chose `distinct` experts and has demanded them: reads those of the layer that follows, or
// of the next pass's first layer.
void read_ahead(const TokenRoutes& known, const ModelConfig& config, int32_t layer, size_t distinct,
                const PassOrder& order, const PrefetchLimits& limits, ExpertTiers& tiers);
// `layer` is computed: reads what the group's next chunk needs of the same layer and the cache
// could not keep.
void read_again(const ModelConfig& config, int32_t layer, size_t distinct, const PassOrder& order,
                const PrefetchLimits& limits, ExpertTiers& tiers);

// ---- a decode step

// What a guess is made from.
struct GuessInputs {
    const ModelConfig& config;
    int32_t layer;                    // the one that runs
    const LayerWeights& next;         // ffn_norm, gate and gate_bias of the next one
    const bf16* collapsed;            // [D], the collapsed streams of this layer
    std::span<const int32_t> chosen;  // by this layer's router, router order
};

struct GuessScratch {
    bf16* x;         // [D]
    int32_t* ids;    // [k]
    float* weights;  // [k]
};

// Starts reading the experts of the layers behind `layer` (-1: of all layers) that are known, nearest
// first. Nothing is read with prefetching off.
void prefetch_known(const TokenRoutes& known, int32_t layer, const PrefetchLimits& limits,
                    RouteLog& log, ExpertTiers& tiers);
// Whether guesses for `next_layer` are to be made.
bool wants_guesses(const PrefetchLimits& limits, const RouteLog& log, const ExpertTiers& tiers,
                   int32_t next_layer);
// Guesses the next layer's experts and starts reading some of them. Call it after this layer's
// demand: the drives have their work before the guesses are computed.
Result<void> prefetch(const GuessInputs& in, const GuessScratch& scratch,
                      const PrefetchLimits& limits, RouteLog& log, ExpertTiers& tiers,
                      Backend& device);
// Reports to the governor which of the guesses made one layer ago were right.
void judge_guesses(int32_t layer, std::span<const int32_t> chosen, RouteLog& log,
                   ExpertTiers& tiers);

}  // namespace sluice
