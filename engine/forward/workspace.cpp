#include "engine/forward/workspace.h"

#include <algorithm>

namespace sluice {

namespace {

// A token needs many times more while it is in attention or Engram than between layers: a chunk
// goes through them in slices, a quarter of the chunk within these limits.
constexpr int32_t slice_least = 64;
constexpr int32_t slice_most = 512;
constexpr int32_t logit_rows_max = 8;
constexpr int32_t short_rows_max = 8;
constexpr uint64_t index_scratch_max = 16u << 20;  // floats

void take_quant(Suballocator& memory, QuantRows& rows, uint64_t count, uint64_t cols) {
    memory.take(rows.codes, count * cols);
    memory.take(rows.scales, count * cols / 32);
}

void take_ropes(Suballocator& memory, RopeBuffers& ropes, uint64_t count) {
    for (float** table : {&ropes.plain_cos, &ropes.plain_sin, &ropes.yarn_cos, &ropes.yarn_sin}) {
        memory.take(*table, count);
    }
}

int32_t candidate_blocks_max(const ModelConfig& c, int32_t context) {
    return (c.compressed_rows(context) + c.candidate_block - 1) / c.candidate_block;
}

// Whether a layer attends to rows that an earlier one chose.
bool lists_outlive_layers(const ModelConfig& c) {
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        const int32_t chooser = c.rows[layer].chooser;
        if (chooser >= 0 && chooser != layer) return true;
    }
    return c.candidate_source >= 0;
}

}  // namespace

int32_t rope_lookback(const ModelConfig& config) {
    return config.largest_ratio();
}

WorkspaceShape WorkspaceShape::plan(const ModelConfig& c, int32_t chunk, int32_t context) {
    WorkspaceShape shape{.chunk = chunk, .context = context};
    shape.slice = std::min(chunk, std::clamp(chunk / 4, slice_least, slice_most));
    shape.index_slice = shape.slice;
    const int32_t rows = c.compressed_rows(context);
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
    take_ropes(memory, ropes, (n + rope_lookback(c)) * half);
    memory.take(exchange_, exchange_places(c, shape.chunk).end);
    experts.guess.x = io.y;
    memory.take(experts.guess.ids, c.top_k);
    memory.take(experts.guess.weights, c.top_k);
    if (c.index_topk > 0) {
        memory.take(selected.topk, n * c.index_topk);
        if (c.candidate_source >= 0) {
            selected.blocks = candidate_blocks_max(c, shape.context);
            memory.take(selected.candidates, n * selected.blocks);
        }
    }
    if (c.engram_layers.empty()) return;
    const uint64_t columns = c.engram_columns();
    memory.take(engram.row_codes, n * columns * c.engram_dim);
    memory.take(engram.row_scales, n * columns * c.engram_dim / 32);
    memory.take(engram.row_index, n * columns);
}

// Attention and Engram, dead when the experts begin.
void Workspace::lay_out_attention(const ModelConfig& c, Suballocator& memory) {
    const uint64_t n = shape.chunk, s = shape.slice;
    const uint64_t heads = static_cast<uint64_t>(c.heads) * c.head_dim;
    const uint64_t ranks = static_cast<uint64_t>(c.o_groups) * c.o_rank;
    attention.slice = shape.slice;
    memory.take(attention.qr, n * c.q_rank);
    take_quant(memory, attention.qrq, n, c.q_rank);
    memory.take(attention.kv, n * c.head_dim);
    memory.take(attention.q, s * heads);
    memory.take(attention.o, s * heads);
    memory.take(attention.t, s * ranks);
    take_quant(memory, attention.tq, s, ranks);
    if (!c.engram_layers.empty()) {
        engram.slice = shape.slice;
        take_quant(memory, engram.rows, s, c.engram_columns() * c.engram_dim);
        memory.take(engram.kv, s * (c.hc + 1) * c.hidden);
    }
    const uint64_t pool = c.widest_pool();
    if (pool == 0) return;
    memory.take(compress.pool_kv, n * pool * c.head_dim);
    memory.take(compress.pool_gate, n * pool * c.head_dim);
    memory.take(compress.latent, (n + 1) * c.head_dim);
    index.slice = shape.index_slice;
    memory.take(index.q, s * c.index_heads * c.index_dim);
    memory.take(index.w, s * c.index_heads);
    memory.take(index.scores,
                index_scratch_floats(shape.index_slice, c.compressed_rows(shape.context)));
}

// The experts, dead when the next layer's attention begins: their output is summed before.
void Workspace::lay_out_experts(const ModelConfig& c, Suballocator& memory) {
    const uint64_t n = shape.chunk;
    memory.take(experts.partial, n * c.top_k * c.hidden);
    memory.take(experts.shared, n * c.hidden);
    memory.take(experts.shared_gate, n * c.moe_hidden);
    memory.take(experts.shared_up, n * c.moe_hidden);
    take_quant(memory, experts.shared_act, n, c.moe_hidden);
}

uint64_t Workspace::lay_out(const ModelConfig& c, Suballocator memory) {
    const uint64_t n = shape.chunk, hc = c.hc, dim = c.hidden;
    memory.take(streams.h, n * hc * dim);
    memory.take(streams.pre_a, n * hc);
    memory.take(streams.pre_b, n * hc);
    streams.short_rows = shape.short_rows;
    memory.take(streams.h_short, shape.short_rows * hc * dim);
    for (float** post : {&streams.post_a, &streams.post_b}) memory.take(*post, n * hc);
    for (float** comb : {&streams.comb_a, &streams.comb_b}) memory.take(*comb, n * hc * hc);
    memory.take(io.collapsed, n * dim);
    memory.take(io.x, n * dim);
    memory.take(io.y, n * dim);
    lay_out_pass(c, memory);
    if (c.arithmetic.own_mix) memory.take(head.pre, n * hc);
    head.logit_rows = shape.logit_rows;
    memory.take(head.best, 2);
    memory.take(head.logits, static_cast<uint64_t>(shape.logit_rows) * c.vocab);
    Suballocator for_attention = memory, for_experts = memory;
    lay_out_attention(c, for_attention);
    lay_out_experts(c, for_experts);
    memory.skip_past(for_attention);
    memory.skip_past(for_experts);
    return memory.used();
}

uint64_t Workspace::bytes(const ModelConfig& config, const WorkspaceShape& shape) {
    Workspace workspace{};
    workspace.shape = shape;
    return workspace.lay_out(config, Suballocator());
}

void Workspace::fit(const ModelConfig& c, int32_t n) {
    const ExchangePlaces at = exchange_places(c, n);
    experts.routes = reinterpret_cast<int32_t*>(exchange_);
    io.xq.codes = reinterpret_cast<uint8_t*>(exchange_ + at.codes);
    io.xq.scales = reinterpret_cast<uint8_t*>(exchange_ + at.scales);
}

uint64_t Workspace::list_bytes(const ModelConfig& config, const WorkspaceShape& shape) {
    Workspace workspace{};
    workspace.shape = shape;
    return workspace.lay_out_lists(config, Suballocator());
}

uint64_t Workspace::lay_out_lists(const ModelConfig& c, Suballocator memory) {
    const uint64_t count = static_cast<uint64_t>(shape.chunk) * c.top_k;
    memory.take(experts.rows, count);
    memory.take(experts.slots, count);
    memory.take(experts.weights, count);
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
    take_ropes(memory, ropes, (n + rope_lookback(c)) * (c.rope_dim / 2));
    topk = nullptr;
    candidates = nullptr;
    if (!lists_outlive_layers(c)) return memory.used();
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
    RopeBuffers& ropes = part.ropes;
    for (float** table : {&ropes.plain_cos, &ropes.plain_sin, &ropes.yarn_cos, &ropes.yarn_sin}) {
        *table += past * (c.rope_dim / 2);
    }
    if (topk) part.topk += past * c.index_topk;
    if (candidates) part.candidates += past * blocks_;
    return part;
}

}  // namespace sluice
