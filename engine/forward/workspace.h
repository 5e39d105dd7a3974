// Buffers of one forward pass over a chunk of tokens. Attention and Engram go through the chunk in
// slices of queries, because their inner vectors are many times wider than the model.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/forward/suballocator.h"
#include "engine/model/config.h"
#include "io/memory.h"
#include "kernels/backend.h"

namespace sluice {

struct WorkspaceShape {
    int32_t chunk = 1;
    int32_t context = 1;
    int32_t slice = 1;        // queries at once
    int32_t index_slice = 1;  // queries at once in the indexer
    int32_t logit_rows = 1;
    int32_t short_rows = 1;  // passes of at most this many tokens have a second buffer of streams

    static WorkspaceShape plan(const ModelConfig& config, int32_t chunk, int32_t context);
};

// Device memory, of the backend. Shapes: n = chunk, s = slice. What attention and Engram need lies
// in the same place as what the experts need: see lay_out().
struct Workspace {
    WorkspaceShape shape;

    bf16 *h, *h_short;                       // [n][H][D], the streams; [short_rows][H][D]
    float *pre_a, *pre_b, *post_a, *post_b;  // [n][H]
    float *comb_a, *comb_b;                  // [n][H][H]
    bf16 *collapsed, *x, *y;                 // [n][D]: before the norm, after it, sub-layer output
    float *plain_cos, *plain_sin, *yarn_cos, *yarn_sin;  // [n + 1][rope_dim / 2]

    bf16* qr;                    // [n][q_rank]
    QuantRows qrq;               // [n][q_rank]
    bf16* kv;                    // [n][head_dim]
    bf16 *q, *o;                 // [s][heads][head_dim]
    bf16* t;                     // [s][groups * rank]
    QuantRows tq;                // [s][groups * rank]
    float *pool_kv, *pool_gate;  // [n][head_dim]
    bf16* latent;                // [n + 1][head_dim]
    bf16 *index_q, *index_w;     // [s][index_heads][index_dim], [s][index_heads]
    float* index_scratch;
    int32_t* topk;        // [n][index_topk]
    uint8_t* candidates;  // [n][blocks], null without a candidate level
    int32_t blocks = 0;

    uint8_t *row_codes, *row_scales;  // [n * columns][engram_dim] and / 32
    int32_t* row_index;               // [n][columns]
    QuantRows rows;                   // [s][columns * engram_dim]
    bf16* engram_kv;                  // [s][(H + 1) * D]

    // Of a pass, side by side so that one download brings both to the host: fit().
    std::byte* exchange;
    int32_t* routes;       // [n][k] ids, then [n][k] fp32 weights
    QuantRows xq;          // [n][D]
    int32_t* guess_ids;    // [k]
    float* guess_weights;  // [k]
    // Written by the host, read by the device in place; outside the workspace's memory.
    int32_t *expert_rows, *expert_slots;     // [n * k]
    float* expert_weights;                   // [n * k]
    bf16* partial;                           // [n][k][D]
    bf16 *shared, *shared_gate, *shared_up;  // [n][D], [n][F], [n][F]
    QuantRows shared_act;                    // [n][F]
    int32_t* best;                           // [2], of the last position
    float* logits;                           // [logit_rows][vocab]

    static uint64_t bytes(const ModelConfig& config, const WorkspaceShape& shape);
    static uint64_t list_bytes(const ModelConfig& config, const WorkspaceShape& shape);
    struct ExchangePlaces {
        uint64_t codes, scales, end;  // bytes from the routes
    };
    static ExchangePlaces exchange_places(const ModelConfig& config, int32_t n);
    // Places routes and xq for a pass of n tokens.
    void fit(const ModelConfig& config, int32_t n);
    // `lists`: list_bytes() from Backend::allocate_shared().
    Workspace(const ModelConfig& config, const WorkspaceShape& shape, std::byte* memory,
              std::byte* lists);

 private:
    Workspace() = default;
    uint64_t lay_out(const ModelConfig& config, Suballocator memory);
    void lay_out_pass(const ModelConfig& config, Suballocator& memory);
    void lay_out_attention(const ModelConfig& config, Suballocator& memory);
    void lay_out_experts(const ModelConfig& config, Suballocator& memory);
    uint64_t lay_out_lists(const ModelConfig& config, Suballocator memory);
};

// What chunks of a prompt keep from layer to layer when all of them go through one before the next
// begins; host memory, pieces as in Workspace, [tokens] instead of [n]. See chunked_prompt.cpp.
struct ChunkStore {
    int32_t tokens = 0;
    bf16* h;
    float* pre;
    float *plain_cos, *plain_sin, *yarn_cos, *yarn_sin;  // neighbours share a row
    int32_t* topk;
    uint8_t* candidates;

    static uint64_t bytes(const ModelConfig& config, const WorkspaceShape& shape, int32_t tokens);
    ChunkStore(const ModelConfig& config, const WorkspaceShape& shape, int32_t tokens,
               std::byte* memory);
    // That of a chunk that begins so many tokens after the first one.
    ChunkStore at(const ModelConfig& config, int32_t first) const;

 private:
    ChunkStore() = default;
    uint64_t lay_out(const ModelConfig& config, const WorkspaceShape& shape, Suballocator memory);
    int32_t blocks_ = 0;
};

// Where the Engram rows of a chunk arrive, one a layer that has a table; host memory.
struct RowBuffers {
    struct Rows {
        uint8_t* codes;
        uint8_t* scales;
    };
    std::vector<Rows> tables;

    static uint64_t bytes(const ModelConfig& config, int32_t chunk);
    RowBuffers(const ModelConfig& config, int32_t chunk, std::byte* memory);
    RowBuffers() = default;

 private:
    uint64_t lay_out(const ModelConfig& config, int32_t chunk, Suballocator memory);
};

}  // namespace sluice
