// Attention over a window of the last tokens and over compressed rows, selected ones or all
// (deepseek-v41.md sections 3.5, 3.5.1, deepseek-v4.md section 3.2). Two steps, because an owner of
// compressed rows fills and selects them in between (layer_compress.h, layer_index.h):
//
//   project()  ->  [rows stored  ->  select_rows()]  ->  attend()
//
// Shapes: n tokens, s = AttentionScratch::slice. Device memory. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/forward/layer_context.h"
#include "engine/forward/layer_index.h"
#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace sluice {

// What is read.
struct AttentionInputs {
    const ModelConfig& config;
    const LayerWeights& weights;  // wq_a, wq_b, q_norm, wkv, kv_norm, sink, wo_a, wo_b
    Positions at;
    RopeTable rope;  // plain for a layer that attends to its window only, else yarn
    QuantRows x;     // [n][D], the sub-layer's input
};

// The parts of the sequence's state.
struct AttentionState {
    bf16* window;  // own: [window][head_dim], slot = position mod window; read and written
    const bf16* compressed;  // of the rows' owner: [rows][head_dim]; null: window only
    int32_t all_rows_ratio = 0;  // > 0: no list, all visible rows are attended to
};

// Dead after attend().
struct AttentionScratch {
    int32_t slice;  // queries at once: their inner vectors are many times wider than the model
    bf16* qr;       // [n][q_rank], query latents
    QuantRows qrq;  // [n][q_rank], quantised
    bf16* kv;       // [n][head_dim], this layer's keys of the chunk
    bf16 *q, *o;    // [s][heads][head_dim]
    bf16* t;        // [s][groups * rank]
    QuantRows tq;   // [s][groups * rank]
};

// Fills qr, qrq and kv of the scratch. A single token's key goes into the window at once.
void project(const AttentionInputs& in, const AttentionState& state,
             const AttentionScratch& scratch, Backend& device);

// Writes y [n][D], and the chunk's keys into the window. `rows`: the list published last, not used
// without compressed rows.
Result<void> attend(const AttentionInputs& in, const AttentionState& state,
                    const SelectedRows& rows, const AttentionScratch& scratch, bf16* y,
                    Backend& device, const PassHooks& hooks);

}  // namespace sluice
