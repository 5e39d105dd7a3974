#include "engine/forward/layer_attention.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

RopeRequant rotation(const AttentionInputs& in, bf16* x, int32_t first, int32_t n, int32_t heads) {
    return {.x = x,
            .n = n,
            .heads = heads,
            .dim = in.config.head_dim,
            .rope = in.rope,
            .position = in.at.first + first,
            .stride = 1,
            .inverse = false,
            .requant = Requant::none};
}

// Queries first .. first + n - 1 of the chunk.
void attend_slice(const AttentionInputs& in, const AttentionState& state, const SelectedRows& rows,
                  const AttentionScratch& scratch, bf16* y, Backend& device, int32_t first,
                  int32_t n) {
    const ModelConfig& c = in.config;
    const LayerWeights& w = in.weights;
    const uint64_t at = first;
    const QuantRows qrq{scratch.qrq.codes + at * c.q_rank,
                        scratch.qrq.scales + at * (c.q_rank / 32)};
    device.run(LinearFp8{scratch.q, w.wq_b, qrq, n});

    const int32_t ratio = state.all_rows_ratio;
    const int32_t listed = state.compressed ? rows.width : 0;
    const int32_t k = ratio > 0 ? in.at.end() / ratio : listed;
    const bf16* chunk = scratch.kv + at * c.head_dim;
    RotatedAttention rotated{};
    rotated.query = rotation(in, scratch.q, first, n, c.heads);
    rotated.back = rotation(in, scratch.o, first, n, c.heads);
    rotated.back.inverse = true;
    rotated.attention = {.out = scratch.o,
                         .q = scratch.q,
                         .buffer = state.window,
                         .chunk = chunk,
                         .compressed = k > 0 ? state.compressed : nullptr,
                         .topk = k > 0 && ratio == 0 ? rows.topk + at * k : nullptr,
                         .sink = w.sink,
                         .n = n,
                         .heads = c.heads,
                         .dim = c.head_dim,
                         .window = c.window,
                         .position = in.at.first + first,
                         .k = k,
                         .scale = static_cast<float>(1.0 / std::sqrt(double(c.head_dim))),
                         .ratio = k > 0 ? ratio : 0};
    if (c.arithmetic.head_norm) rotated.norm = {scratch.q, n, c.heads, c.head_dim, c.norm_eps};
    device.run(rotated);
    if (in.at.n > 1) {
        device.run(WindowStore{state.window, chunk, n, c.head_dim, c.window, in.at.first + first});
    }
    device.run(GroupedOutputQuant{{scratch.t, w.wo_a, scratch.o, n, c.o_groups},
                                  {scratch.tq, scratch.t, n, c.o_groups * c.o_rank,
                                   c.arithmetic.activation_group}});
    device.run(LinearFp8{y + at * c.hidden, w.wo_b, scratch.tq, n});
}

}  // namespace

void project(const AttentionInputs& in, const AttentionState& state,
             const AttentionScratch& scratch, Backend& device) {
    const ModelConfig& c = in.config;
    const LayerWeights& w = in.weights;
    const int32_t n = in.at.n;
    device.run(LinearFp8Pair{{scratch.qr, w.wq_a, in.x, n}, {scratch.kv, w.wkv, in.x, n}});
    LatentFinish finish{};
    finish.query = {scratch.qr, scratch.qr, w.q_norm, n, c.q_rank, c.norm_eps};
    finish.query_quant = {scratch.qrq, scratch.qr, n, c.q_rank, c.arithmetic.activation_group};
    finish.key = {scratch.kv, scratch.kv, w.kv_norm, n, c.head_dim, c.norm_eps};
    finish.key_place = rotation(in, scratch.kv, 0, n, 1);
    finish.key_place.requant = c.arithmetic.window_keys;
    finish.key_place.kept = c.keys_kept();
    if (n == 1) {
        // The slot that one token takes is the one it no longer sees.
        finish.store = {state.window, scratch.kv, 1, c.head_dim, c.window, in.at.first};
    }
    device.run(finish);
}

Result<void> attend(const AttentionInputs& in, const AttentionState& state,
                    const SelectedRows& rows, const AttentionScratch& scratch, bf16* y,
                    Backend& device, const PassHooks& hooks) {
    // Slices in order: each one finds the tokens before it in the window buffer.
    for (int32_t first = 0; first < in.at.n; first += scratch.slice) {
        const int32_t n = std::min(in.at.n - first, scratch.slice);
        attend_slice(in, state, rows, scratch, y, device, first, n);
        if (auto r = hooks.go_on(); !r) return r;
    }
    return {};
}

}  // namespace sluice
