// The buffers of one forward pass over a chunk of tokens, in the parts that the layer functions
// take. Attention and Engram go through a chunk in slices of queries, because their inner vectors
// are many times wider than the model.
#pragma once

#include <cstdint>

#include "engine/forward/layer_attention.h"
#include "engine/forward/layer_compress.h"
#include "engine/forward/layer_engram.h"
#include "engine/forward/layer_index.h"
#include "engine/forward/layer_moe.h"
#include "engine/forward/streams.h"
#include "engine/forward/suballocator.h"
#include "engine/model/config.h"
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

// Rotation tables begin so many positions before their chunk: a group that began in an earlier chunk
// is rotated by its first token.
int32_t rope_lookback(const ModelConfig& config);

// cos and sin, [n + rope_lookback()][rope_dim / 2] each.
struct RopeBuffers {
    float *plain_cos, *plain_sin, *yarn_cos, *yarn_sin;
};

struct HeadBuffers {
    int32_t logit_rows;
    int32_t* best;  // [2], of the last position
    float* logits;  // [logit_rows][vocab]
    float* pre;     // [n][H], of the head's own mix; null without one
};

// Device memory, of the backend; copies point to the same memory. Shapes: n = shape.chunk. What
// attention and Engram need lies in the same place as what the experts need.
struct Workspace {
    WorkspaceShape shape;

    // Outlive a layer:
    StreamBuffers streams{};
    RopeBuffers ropes{};
    SelectedRows selected{};  // buffers only: what is published belongs to a pass
    // Outlives a sub-layer:
    SublayerIo io{};
    HeadBuffers head{};

    AttentionScratch attention{};
    CompressScratch compress{};
    IndexScratch index{};
    EngramScratch engram{};
    ExpertScratch experts{};

    static uint64_t bytes(const ModelConfig& config, const WorkspaceShape& shape);
    static uint64_t list_bytes(const ModelConfig& config, const WorkspaceShape& shape);
    // `lists`: list_bytes() from Backend::allocate_shared().
    Workspace(const ModelConfig& config, const WorkspaceShape& shape, std::byte* memory,
              std::byte* lists);

    // Places experts.routes and io.xq for a pass of n tokens, side by side.
    void fit(const ModelConfig& config, int32_t n);

 private:
    Workspace() = default;
    uint64_t lay_out(const ModelConfig& config, Suballocator memory);
    void lay_out_pass(const ModelConfig& config, Suballocator& memory);
    void lay_out_attention(const ModelConfig& config, Suballocator& memory);
    void lay_out_experts(const ModelConfig& config, Suballocator& memory);
    uint64_t lay_out_lists(const ModelConfig& config, Suballocator memory);

    std::byte* exchange_ = nullptr;  // routes and quantised rows
};

// What the chunks of a prompt keep from layer to layer when all of them go through one before the
// next begins; host memory, parts as in Workspace, [tokens] instead of [n]. See chunked_prompt.h.
struct ChunkStore {
    int32_t tokens = 0;
    bf16* h;
    float* pre;
    RopeBuffers ropes;  // neighbouring chunks share rope_lookback() rows
    int32_t* topk;
    uint8_t* candidates;

    static uint64_t bytes(const ModelConfig& config, const WorkspaceShape& shape, int32_t tokens);
    ChunkStore(const ModelConfig& config, const WorkspaceShape& shape, int32_t tokens,
               std::byte* memory);
    // The part of the chunk that begins `first` tokens after the first chunk.
    ChunkStore at(const ModelConfig& config, int32_t first) const;

 private:
    ChunkStore() = default;
    uint64_t lay_out(const ModelConfig& config, const WorkspaceShape& shape, Suballocator memory);
    int32_t blocks_ = 0;
};

}  // namespace sluice
