// Compressor (deepseek-v41.md section 3.6): every group of `ratio` tokens that a chunk completes
// leaves one compressed row and one index key in the state. Only layers that own compressed rows
// have one.
//
// Shapes: n tokens. Device memory. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/forward/layer_context.h"
#include "engine/forward/state.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace sluice {

// What is read.
struct CompressInputs {
    const ModelConfig& config;
    const CompressorWeights& weights;
    const IndexerWeights& indexer;  // wk and k_norm: an index key is made from the same latent
    int32_t layer;
    Positions at;
    RopeTable rope;  // yarn
    const bf16* x;   // [n][D], the sub-layer's input
};

// Dead when compress() returns.
struct CompressScratch {
    float *pool_kv, *pool_gate;  // [n][head_dim]
    bf16* latent;                // [n + 1][head_dim]
};

// Writes the compressed rows, the index keys and the open group of `own`, the layer's state.
// Returns how many groups were completed.
Result<int32_t> compress(const CompressInputs& in, const LayerState& own,
                         const CompressScratch& scratch, Backend& device, const PassHooks& hooks);

}  // namespace sluice
