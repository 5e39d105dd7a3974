// Attention over the window and the compressed rows (sections 3.5, 3.5.1).
#include <algorithm>
#include <cmath>

#include "engine/forward/forward.h"

namespace sluice {

namespace {

RopeRequant rotation(Pass& pass, int32_t layer, bf16* x, int32_t first, int32_t n, int32_t heads) {
    return {.x = x,
            .n = n,
            .heads = heads,
            .dim = pass.rt.config.head_dim,
            .rope = pass.rope(layer),
            .position = pass.position + first,
            .stride = 1,
            .inverse = false,
            .requant = Requant::none};
}

// qr, its quantised form, and this layer's own keys of the chunk.
void project(Pass& pass, int32_t layer) {
    const ModelConfig& c = pass.rt.config;
    const LayerWeights& w = pass.rt.weights.layers[layer];
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const int32_t n = pass.n;
    backend.run(LinearFp8Pair{{ws.qr, w.wq_a, ws.xq, n}, {ws.kv, w.wkv, ws.xq, n}});
    LatentFinish finish{};
    finish.query = {ws.qr, ws.qr, w.q_norm, n, c.q_rank, c.norm_eps};
    finish.query_quant = {ws.qrq, ws.qr, n, c.q_rank};
    finish.key = {ws.kv, ws.kv, w.kv_norm, n, c.head_dim, c.norm_eps};
    finish.key_place = rotation(pass, layer, ws.kv, 0, n, 1);
    finish.key_place.requant = Requant::fp8_32;
    if (n == 1) {
        // The slot that one token takes is the one it no longer sees.
        finish.store = {
            pass.state.layer(layer).window, ws.kv, 1, c.head_dim, c.window, pass.position};
    }
    backend.run(finish);
}

// Queries first .. first + n - 1 of the chunk: y of them, and their keys into the window buffer.
void attend(Pass& pass, int32_t layer, int32_t first, int32_t n) {
    const ModelConfig& c = pass.rt.config;
    const LayerWeights& w = pass.rt.weights.layers[layer];
    const LayerState& state = pass.state.layer(layer);
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const uint64_t at = first;
    const QuantRows qrq{ws.qrq.codes + at * c.q_rank, ws.qrq.scales + at * (c.q_rank / 32)};
    backend.run(LinearFp8{ws.q, w.wq_b, qrq, n});

    const int32_t source = c.kv_source_of(layer);
    const int32_t k = source < 0 ? 0 : pass.topk_width;
    const bf16* chunk = ws.kv + at * c.head_dim;
    RotatedAttention rotated{};
    rotated.query = rotation(pass, layer, ws.q, first, n, c.heads);
    rotated.back = rotation(pass, layer, ws.o, first, n, c.heads);
    rotated.back.inverse = true;
    rotated.attention = {.out = ws.o,
                         .q = ws.q,
                         .ring = state.window,
                         .chunk = chunk,
                         .compressed = k > 0 ? pass.state.layer(source).compressed : nullptr,
                         .topk = k > 0 ? ws.topk + at * k : nullptr,
                         .sink = w.sink,
                         .n = n,
                         .heads = c.heads,
                         .dim = c.head_dim,
                         .window = c.window,
                         .position = pass.position + first,
                         .k = k,
                         .scale = static_cast<float>(1.0 / std::sqrt(double(c.head_dim)))};
    backend.run(rotated);
    if (pass.n > 1) {
        backend.run(
            WindowStore{state.window, chunk, n, c.head_dim, c.window, pass.position + first});
    }
    backend.run(GroupedOutputQuant{{ws.t, w.wo_a, ws.o, n, c.o_groups},
                                   {ws.tq, ws.t, n, c.o_groups * c.o_rank}});
    backend.run(LinearFp8{ws.y + at * c.hidden, w.wo_b, ws.tq, n});
}

}  // namespace

Result<void> attention(Pass& pass, int32_t layer) {
    const LayerWeights& w = pass.rt.weights.layers[layer];
    const ModelConfig& c = pass.rt.config;
    project(pass, layer);
    const uint64_t n = pass.n;
    if (auto r = probe(pass, layer, "qr", pass.ws.qr, n * c.q_rank); !r) return r;
    if (w.compressor) {
        if (auto r = compress(pass, layer); !r) return r;
    }
    if (w.indexer) {
        if (auto r = index_rows(pass, layer); !r) return r;
    }
    // Slices in order: each finds the window before it in the window buffer.
    for (int32_t first = 0; first < pass.n; first += pass.ws.shape.slice) {
        attend(pass, layer, first, std::min(pass.n - first, pass.ws.shape.slice));
        if (auto r = pass.go_on(); !r) return r;
    }
    return {};
}

}  // namespace sluice
