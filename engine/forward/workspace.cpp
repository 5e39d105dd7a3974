#include "engine/forward/workspace.h"

#include <algorithm>

namespace sluice {

namespace {

// What a token needs while it is in attention or Engram is many times what it keeps: a chunk goes
// through them in slices, a quarter of it within these limits.
constexpr int32_t slice_least = 64;
constexpr int32_t slice_most = 512;
constexpr int32_t logit_rows_max = 8;
constexpr int32_t short_rows_max = 8;
constexpr uint64_t index_scratch_max = 16u << 20;  // floats

void take_quant(Suballocator& memory, QuantRows& rows, uint64_t count, uint64_t cols) {
    memory.take(rows.codes, count * cols);
    memory.take(rows.scales, count * cols / 32);
}

int32_t compressed_rows_max(const ModelConfig& c, int32_t context) {
    int32_t rows = 0;
    for (int32_t owner : c.kv_sources) rows = std::max(rows, context / c.ratios[owner]);
    return rows;
}

int32_t candidate_blocks_max(const ModelConfig& c, int32_t context) {
    return (compressed_rows_max(c, context) + c.candidate_block - 1) / c.candidate_block;
}

}  // namespace

WorkspaceShape WorkspaceShape::plan(const ModelConfig& c, int32_t chunk, int32_t context) {
    WorkspaceShape shape{.chunk = chunk, .context = context};
    shape.slice = std::min(chunk, std::clamp(chunk / 4, slice_least, slice_most));
    shape.index_slice = shape.slice;
    const int32_t rows = compressed_rows_max(c, context);
    while (shape.index_slice > 1 &&
           index_scratch_floats(shape.index_slice, rows) > index_scratch_max) {
        shape.index_slice = (shape.index_slice + 1) / 2;
    }
    shape.logit_rows = std::min(chunk, logit_rows_max);
    shape.short_rows = std::min(chunk, short_rows_max);
    return shape;
}

// What a layer leaves to the layers after it, and what a pass brings along.
void Workspace::lay_out_pass(const ModelConfig& c, Suballocator& memory) {
    const uint64_t n = shape.chunk, half = c.rope_dim / 2;
    for (float** table : {&plain_cos, &plain_sin, &yarn_cos, &yarn_sin}) {
        memory.take(*table, (n + 1) * half);
    }
    memory.take(exchange, exchange_places(c, shape.chunk).end);
    memory.take(guess_ids, c.top_k);
    memory.take(guess_weights, c.top_k);
    if (!c.kv_sources.empty()) {
        memory.take(topk, n * c.index_topk);
        if (c.candidate_source >= 0) {
            blocks = candidate_blocks_max(c, shape.context);
            memory.take(candidates, n * blocks);
        }
    }
    if (c.engram_layers.empty()) return;
    const uint64_t columns = c.engram_columns();
    memory.take(row_codes, n * columns * c.engram_dim);
    memory.take(row_scales, n * columns * c.engram_dim / 32);
    memory.take(row_index, n * columns);
}

// Attention and Engram, dead when the experts begin.
void Workspace::lay_out_attention(const ModelConfig& c, Suballocator& memory) {
    const uint64_t n = shape.chunk, s = shape.slice;
    const uint64_t heads = static_cast<uint64_t>(c.heads) * c.head_dim;
    const uint64_t ranks = static_cast<uint64_t>(c.o_groups) * c.o_rank;
    memory.take(qr, n * c.q_rank);
    take_quant(memory, qrq, n, c.q_rank);
    memory.take(kv, n * c.head_dim);
    memory.take(q, s * heads);
    memory.take(o, s * heads);
    memory.take(t, s * ranks);
    take_quant(memory, tq, s, ranks);
    if (!c.engram_layers.empty()) {
        take_quant(memory, rows, s, c.engram_columns() * c.engram_dim);
        memory.take(engram_kv, s * (c.hc + 1) * c.hidden);
    }
    if (c.kv_sources.empty()) return;
    memory.take(pool_kv, n * c.head_dim);
    memory.take(pool_gate, n * c.head_dim);
    memory.take(latent, (n + 1) * c.head_dim);
    memory.take(index_q, s * c.index_heads * c.index_dim);
    memory.take(index_w, s * c.index_heads);
    memory.take(index_scratch,
                index_scratch_floats(shape.index_slice, compressed_rows_max(c, shape.context)));
}

// The experts, dead when the next layer's attention begins: what they leave is combined before.
void Workspace::lay_out_experts(const ModelConfig& c, Suballocator& memory) {
    const uint64_t n = shape.chunk;
    memory.take(partial, n * c.top_k * c.hidden);
    memory.take(shared, n * c.hidden);
    memory.take(shared_gate, n * c.moe_hidden);
    memory.take(shared_up, n * c.moe_hidden);
    take_quant(memory, shared_act, n, c.moe_hidden);
}

uint64_t Workspace::lay_out(const ModelConfig& c, Suballocator memory) {
    const uint64_t n = shape.chunk, hc = c.hc, dim = c.hidden;
    memory.take(h, n * hc * dim);
    memory.take(pre_a, n * hc);
    memory.take(pre_b, n * hc);
    memory.take(h_short, shape.short_rows * hc * dim);
    for (float** post : {&post_a, &post_b}) memory.take(*post, n * hc);
    for (float** comb : {&comb_a, &comb_b}) memory.take(*comb, n * hc * hc);
    memory.take(collapsed, n * dim);
    memory.take(x, n * dim);
    memory.take(y, n * dim);
    lay_out_pass(c, memory);
    memory.take(best, 2);
    memory.take(logits, static_cast<uint64_t>(shape.logit_rows) * c.vocab);
    Suballocator attention = memory, experts = memory;
    lay_out_attention(c, attention);
    lay_out_experts(c, experts);
    memory.skip_past(attention);
    memory.skip_past(experts);
    return memory.used();
}

uint64_t Workspace::bytes(const ModelConfig& config, const WorkspaceShape& shape) {
    Workspace workspace{};
    workspace.shape = shape;
    return workspace.lay_out(config, Suballocator());
}

Workspace::ExchangePlaces Workspace::exchange_places(const ModelConfig& c, int32_t n) {
    const auto rows = static_cast<uint64_t>(n), dim = static_cast<uint64_t>(c.hidden);
    ExchangePlaces at{};
    at.codes = round_up(rows * c.top_k * (sizeof(int32_t) + sizeof(float)), 256);
    at.scales = at.codes + round_up(rows * dim, 256);
    at.end = at.scales + rows * (dim / 32);
    return at;
}

void Workspace::fit(const ModelConfig& c, int32_t n) {
    const ExchangePlaces at = exchange_places(c, n);
    routes = reinterpret_cast<int32_t*>(exchange);
    xq.codes = reinterpret_cast<uint8_t*>(exchange + at.codes);
    xq.scales = reinterpret_cast<uint8_t*>(exchange + at.scales);
}

uint64_t Workspace::list_bytes(const ModelConfig& config, const WorkspaceShape& shape) {
    Workspace workspace{};
    workspace.shape = shape;
    return workspace.lay_out_lists(config, Suballocator());
}

uint64_t Workspace::lay_out_lists(const ModelConfig& c, Suballocator memory) {
    const uint64_t count = static_cast<uint64_t>(shape.chunk) * c.top_k;
    memory.take(expert_rows, count);
    memory.take(expert_slots, count);
    memory.take(expert_weights, count);
    return memory.used();
}

Workspace::Workspace(const ModelConfig& config, const WorkspaceShape& planned, std::byte* memory,
                     std::byte* lists)
    : Workspace() {
    shape = planned;
    lay_out(config, Suballocator(memory));
    lay_out_lists(config, Suballocator(lists));
}

uint64_t ChunkStore::lay_out(const ModelConfig& c, const WorkspaceShape& shape,
                             Suballocator memory) {
    const auto n = static_cast<uint64_t>(tokens);
    memory.take(h, n * c.hc * c.hidden);
    memory.take(pre, n * c.hc);
    for (float** table : {&plain_cos, &plain_sin, &yarn_cos, &yarn_sin}) {
        memory.take(*table, (n + 1) * (c.rope_dim / 2));
    }
    topk = nullptr;
    candidates = nullptr;
    if (c.kv_sources.empty()) return memory.used();
    memory.take(topk, n * c.index_topk);
    if (c.candidate_source < 0) return memory.used();
    blocks_ = candidate_blocks_max(c, shape.context);
    memory.take(candidates, n * blocks_);
    return memory.used();
}

uint64_t ChunkStore::bytes(const ModelConfig& config, const WorkspaceShape& shape, int32_t tokens) {
    ChunkStore store;
    store.tokens = tokens;
    return store.lay_out(config, shape, Suballocator());
}

ChunkStore::ChunkStore(const ModelConfig& config, const WorkspaceShape& shape, int32_t count,
                       std::byte* memory)
    : ChunkStore() {
    tokens = count;
    lay_out(config, shape, Suballocator(memory));
}

ChunkStore ChunkStore::at(const ModelConfig& c, int32_t first) const {
    const auto past = static_cast<uint64_t>(first);
    ChunkStore part = *this;
    part.tokens -= first;
    part.h += past * c.hc * c.hidden;
    part.pre += past * c.hc;
    for (float** table : {&part.plain_cos, &part.plain_sin, &part.yarn_cos, &part.yarn_sin}) {
        *table += past * (c.rope_dim / 2);
    }
    if (topk) part.topk += past * c.index_topk;
    if (candidates) part.candidates += past * blocks_;
    return part;
}

uint64_t RowBuffers::lay_out(const ModelConfig& c, int32_t chunk, Suballocator memory) {
    const uint64_t rows = static_cast<uint64_t>(chunk) * c.engram_columns();
    tables.assign(c.engram_layers.size(), {});
    for (Rows& table : tables) {
        memory.take(table.codes, rows * c.engram_dim);
        memory.take(table.scales, rows * c.engram_dim / 32);
    }
    return memory.used();
}

uint64_t RowBuffers::bytes(const ModelConfig& config, int32_t chunk) {
    return RowBuffers().lay_out(config, chunk, Suballocator());
}

RowBuffers::RowBuffers(const ModelConfig& config, int32_t chunk, std::byte* memory) {
    lay_out(config, chunk, Suballocator(memory));
}

}  // namespace sluice
