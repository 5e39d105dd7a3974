// Indexer (deepseek-v41.md section 3.7): selects the compressed rows that each query attends to.
// The list stays published for the layers that follow, until the next indexer writes its own.
//
// Shapes: n tokens, s = IndexScratch::slice. Device memory. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/forward/layer_context.h"
#include "engine/forward/state.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "engine/options.h"
#include "kernels/backend.h"

namespace sluice {

// The list published last, of a pass.
struct SelectedRows {
    int32_t* topk = nullptr;  // [n][width], buffer [n][index_topk]
    int32_t width = 0;
    // Marks of the blocks that later indexers choose from; null without a candidate level.
    uint8_t* candidates = nullptr;  // [n][blocks]
    int32_t blocks = 0;
};

struct IndexKeyRows {
    const bf16* data;  // [rows][index_dim]; null: none
    int32_t rows;
};

// The keys that `layer` chooses from when the sequence has `tokens` tokens: those of its KV source.
// With IndexKeys::reference those that were published last, as in the official program, which on a
// decode step that leaves the group open differ.
IndexKeyRows index_keys(const ModelConfig& config, const State& state, IndexKeys mode,
                        int32_t layer, int32_t tokens);

// What is read.
struct IndexInputs {
    const ModelConfig& config;
    const IndexerWeights& weights;
    int32_t layer;
    Positions at;
    RopeTable rope;           // yarn
    const bf16* x;            // [n][D], the sub-layer's input
    QuantRows query_latents;  // [n][q_rank], AttentionScratch::qrq
    IndexKeyRows keys;
};

// Dead when select_rows() returns.
struct IndexScratch {
    int32_t slice;  // queries at once
    bf16 *q, *w;    // [s][index_heads][index_dim], [s][index_heads]
    float* scores;  // index_scratch_floats(s, rows)
};

// Writes `published`: the width and the rows of each query, and the candidates in the layer that
// makes them.
Result<void> select_rows(const IndexInputs& in, const IndexScratch& scratch,
                         SelectedRows& published, Backend& device, const PassHooks& hooks);

}  // namespace sluice
