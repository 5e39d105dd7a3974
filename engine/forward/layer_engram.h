// Engram (deepseek-v41.md section 3.8): rows of a large table, known from the token ids alone, gate
// a value into the streams.
//
// The rows are read from the drives ahead of their layer:
//
//   request_rows() when the pass begins  ->  engram() at the layer, which waits for them  ->
//   abandon_rows() at the end, also after an error
//
// Shapes: n tokens, s = EngramScratch::slice, `columns` rows per token. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/row_cache.h"
#include "engine/forward/layer_context.h"
#include "engine/forward/suballocator.h"
#include "engine/model/config.h"
#include "engine/model/engram_hash.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace sluice {

// Where the rows of a chunk arrive, one per Engram layer; host memory, not owned.
struct RowBuffers {
    struct Rows {
        uint8_t* codes;   // [n * columns][engram_dim]
        uint8_t* scales;  // [n * columns][engram_dim / 32]
    };
    std::vector<Rows> tables;

    static uint64_t bytes(const ModelConfig& config, int32_t chunk);
    RowBuffers(const ModelConfig& config, int32_t chunk, std::byte* memory);
    RowBuffers() = default;

 private:
    uint64_t lay_out(const ModelConfig& config, int32_t chunk, Suballocator memory);
};

// The tables of all Engram layers: which rows token ids ask for, and how they are read. Lives as
// long as the model.
struct EngramTables {
    std::optional<EngramHash> hash;
    RowBuffers buffers;
    std::vector<std::unique_ptr<RowCache>> caches;  // one per Engram layer
};

// The rows that one chunk needs. The ids are not owned.
struct EngramRows {
    std::span<const int32_t> ids;     // of the chunk
    std::span<const int32_t> before;  // the tokens before ids[0]
    // One entry per Engram layer:
    std::vector<std::vector<uint64_t>> distinct;  // row numbers, ascending
    std::vector<std::vector<int32_t>> index;      // [n * columns], places in `distinct`
    size_t pending = 0;                           // bit: asked for and not waited for
};

// What is read.
struct EngramInputs {
    const ModelConfig& config;
    const EngramWeights& weights;
    int32_t layer;
};

struct EngramScratch {
    int32_t slice;                    // tokens at once
    uint8_t *row_codes, *row_scales;  // [n * columns][engram_dim] and / 32
    int32_t* row_index;               // [n][columns]
    QuantRows rows;                   // [s][columns * engram_dim]
    bf16* kv;                         // [s][(H + 1) * D]
};

// Starts reading the rows of all tables. Error: of a read; nothing is pending then.
Result<void> request_rows(const ModelConfig& config, EngramTables& tables, EngramRows& rows);

// Changes the streams h [n][H][D]. `next`: the rows of the chunk that comes to this layer after
// this one, which are requested as soon as the buffers are free; null: none.
Result<void> engram(const EngramInputs& in, EngramTables& tables, EngramRows& rows,
                    EngramRows* next, const EngramScratch& scratch, bf16* h, Backend& device,
                    const PassHooks& hooks);

// Waits for what is pending: a request that nobody waits for would write into buffers of the next
// pass.
void abandon_rows(EngramTables& tables, EngramRows& rows);

}  // namespace sluice
