// Compressors (deepseek-v41.md section 3.6, deepseek-v4.md section 3.3): every group of `ratio`
// tokens that a chunk completes leaves one row in the state: a compressed row that layers attend to,
// and an index key by which an indexer chooses. Only layers that own compressed rows have one.
//
//   project_pool()  ->  pool_groups(), which leaves a latent per group in the scratch  ->
//   store_rows(), store_keys() or store_latent_keys()
//
// Shapes: n tokens, w = ModelConfig::pool_width(). Device memory. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/forward/layer_context.h"
#include "engine/forward/state.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace sluice {

// What is read.
struct PoolInputs {
    const ModelConfig& config;
    const CompressorWeights& weights;
    int32_t layer;
    int32_t dim;  // of a row: head_dim, or index_dim for keys with a compressor of their own
    Positions at;
    const bf16* x;  // [n][D], the sub-layer's input
    const char* name;  // of the latents, for a probe

    int32_t ratio() const { return config.rows[layer].ratio; }
    int32_t first_group() const { return at.first / ratio(); }
    int32_t groups() const { return at.end() / ratio() - first_group(); }  // completed by the chunk
};

// Dead when the rows are stored.
struct CompressScratch {
    float *pool_kv, *pool_gate;  // [n][w * dim]
    bf16* latent;                // [n + 1][dim]
};

// Every token's values and gates; with a ratio of 1 the latents themselves.
void project_pool(const PoolInputs& in, const CompressScratch& scratch, Backend& device);
// Pools the completed groups into normed latents, and keeps the rest in `open`.
Result<void> pool_groups(const PoolInputs& in, const OpenPool& open, const CompressScratch& scratch,
                         Backend& device, const PassHooks& hooks);

// A row stands at the first token of its group; `rope` is the table of compressed rows. Nothing
// happens without groups.
void store_rows(const PoolInputs& in, RopeTable rope, const LayerState& own,
                const CompressScratch& scratch, Backend& device);
// Keys of latents that a compressor of their own made.
void store_keys(const PoolInputs& in, RopeTable rope, const LayerState& own,
                const CompressScratch& scratch, Backend& device);
// Keys projected from the latents of compressed rows.
void store_latent_keys(const PoolInputs& in, const IndexerWeights& indexer, RopeTable rope,
                       const LayerState& own, const CompressScratch& scratch, Backend& device);

}  // namespace sluice
