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

void take_quant(Carver& carver, QuantRows& rows, uint64_t count, uint64_t cols) {
    carver.take(rows.codes, count * cols);
    carver.take(rows.scales, count * cols / 32);
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
void Workspace::carve_pass(const ModelConfig& c, Carver& carver) {
    const uint64_t n = shape.chunk, half = c.rope_dim / 2;
    for (float** table : {&plain_cos, &plain_sin, &yarn_cos, &yarn_sin}) {
        carver.take(*table, (n + 1) * half);
    }
    carver.take(exchange, exchange_places(c, shape.chunk).end);
    carver.take(guess_ids, c.top_k);
    carver.take(guess_weights, c.top_k);
    if (!c.kv_sources.empty()) {
        carver.take(topk, n * c.index_topk);
        if (c.candidate_source >= 0) {
            blocks = candidate_blocks_max(c, shape.context);
            carver.take(candidates, n * blocks);
        }
    }
    if (c.engram_layers.empty()) return;
    const uint64_t columns = c.engram_columns();
    carver.take(row_codes, n * columns * c.engram_dim);
    carver.take(row_scales, n * columns * c.engram_dim / 32);
    carver.take(row_index, n * columns);
}

// Attention and Engram, dead when the experts begin.
void Workspace::carve_attention(const ModelConfig& c, Carver& carver) {
    const uint64_t n = shape.chunk, s = shape.slice;
    const uint64_t heads = static_cast<uint64_t>(c.heads) * c.head_dim;
    const uint64_t ranks = static_cast<uint64_t>(c.o_groups) * c.o_rank;
    carver.take(qr, n * c.q_rank);
    take_quant(carver, qrq, n, c.q_rank);
    carver.take(kv, n * c.head_dim);
    carver.take(q, s * heads);
    carver.take(o, s * heads);
    carver.take(t, s * ranks);
    take_quant(carver, tq, s, ranks);
    if (!c.engram_layers.empty()) {
        take_quant(carver, rows, s, c.engram_columns() * c.engram_dim);
        carver.take(engram_kv, s * (c.hc + 1) * c.hidden);
    }
    if (c.kv_sources.empty()) return;
    carver.take(pool_kv, n * c.head_dim);
    carver.take(pool_gate, n * c.head_dim);
    carver.take(latent, (n + 1) * c.head_dim);
    carver.take(index_q, s * c.index_heads * c.index_dim);
    carver.take(index_w, s * c.index_heads);
    carver.take(index_scratch,
                index_scratch_floats(shape.index_slice, compressed_rows_max(c, shape.context)));
}

// The experts, dead when the next layer's attention begins: what they leave is combined before.
void Workspace::carve_experts(const ModelConfig& c, Carver& carver) {
    const uint64_t n = shape.chunk;
    carver.take(partial, n * c.top_k * c.hidden);
    carver.take(shared, n * c.hidden);
    carver.take(shared_gate, n * c.moe_hidden);
    carver.take(shared_up, n * c.moe_hidden);
    take_quant(carver, shared_act, n, c.moe_hidden);
}

uint64_t Workspace::carve(const ModelConfig& c, Carver carver) {
    const uint64_t n = shape.chunk, hc = c.hc, dim = c.hidden;
    carver.take(h, n * hc * dim);
    carver.take(pre_a, n * hc);
    carver.take(pre_b, n * hc);
    carver.take(h_short, shape.short_rows * hc * dim);
    for (float** post : {&post_a, &post_b}) carver.take(*post, n * hc);
    for (float** comb : {&comb_a, &comb_b}) carver.take(*comb, n * hc * hc);
    carver.take(collapsed, n * dim);
    carver.take(x, n * dim);
    carver.take(y, n * dim);
    carve_pass(c, carver);
    carver.take(best, 2);
    carver.take(logits, static_cast<uint64_t>(shape.logit_rows) * c.vocab);
    Carver attention = carver, experts = carver;
    carve_attention(c, attention);
    carve_experts(c, experts);
    carver.pass(attention);
    carver.pass(experts);
    return carver.used();
}

uint64_t Workspace::bytes(const ModelConfig& config, const WorkspaceShape& shape) {
    Workspace workspace{};
    workspace.shape = shape;
    return workspace.carve(config, Carver());
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
    return workspace.carve_lists(config, Carver());
}

uint64_t Workspace::carve_lists(const ModelConfig& c, Carver carver) {
    const uint64_t count = static_cast<uint64_t>(shape.chunk) * c.top_k;
    carver.take(expert_rows, count);
    carver.take(expert_slots, count);
    carver.take(expert_weights, count);
    return carver.used();
}

Workspace::Workspace(const ModelConfig& config, const WorkspaceShape& planned, std::byte* memory,
                     std::byte* lists)
    : Workspace() {
    shape = planned;
    carve(config, Carver(memory));
    carve_lists(config, Carver(lists));
}

uint64_t ChunkStore::carve(const ModelConfig& c, const WorkspaceShape& shape, Carver carver) {
    const auto n = static_cast<uint64_t>(tokens);
    carver.take(h, n * c.hc * c.hidden);
    carver.take(pre, n * c.hc);
    for (float** table : {&plain_cos, &plain_sin, &yarn_cos, &yarn_sin}) {
        carver.take(*table, (n + 1) * (c.rope_dim / 2));
    }
    topk = nullptr;
    candidates = nullptr;
    if (c.kv_sources.empty()) return carver.used();
    carver.take(topk, n * c.index_topk);
    if (c.candidate_source < 0) return carver.used();
    blocks_ = candidate_blocks_max(c, shape.context);
    carver.take(candidates, n * blocks_);
    return carver.used();
}

uint64_t ChunkStore::bytes(const ModelConfig& config, const WorkspaceShape& shape, int32_t tokens) {
    ChunkStore store;
    store.tokens = tokens;
    return store.carve(config, shape, Carver());
}

ChunkStore::ChunkStore(const ModelConfig& config, const WorkspaceShape& shape, int32_t count,
                       std::byte* memory)
    : ChunkStore() {
    tokens = count;
    carve(config, shape, Carver(memory));
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

uint64_t RowBuffers::carve(const ModelConfig& c, int32_t chunk, Carver carver) {
    const uint64_t rows = static_cast<uint64_t>(chunk) * c.engram_columns();
    tables.assign(c.engram_layers.size(), {});
    for (Rows& table : tables) {
        carver.take(table.codes, rows * c.engram_dim);
        carver.take(table.scales, rows * c.engram_dim / 32);
    }
    return carver.used();
}

uint64_t RowBuffers::bytes(const ModelConfig& config, int32_t chunk) {
    return RowBuffers().carve(config, chunk, Carver());
}

RowBuffers::RowBuffers(const ModelConfig& config, int32_t chunk, std::byte* memory) {
    carve(config, chunk, Carver(memory));
}

}  // namespace sluice
