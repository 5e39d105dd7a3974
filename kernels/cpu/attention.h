// SparseAttention and WindowStore.
//
// One task is a query and up to 16 heads, which are the lanes of all arithmetic between the two
// matrix products. Keys pass through once for the scores and once for the values, four heads at a
// time, out of L2: a query has about 640 keys of 1 KiB, and more only where all rows are attended.
#pragma once

#include <omp.h>

#include "kernels/cpu/dots.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

constexpr int32_t attention_heads = 16;

// Scratch of one thread.
struct AttentionScratch {
    float* q;          // [16][width]
    float* tile;       // [4][width]
    float* p;          // [keys, rounded up to 4][16]: scores, then bf16(P)
    const bf16** key;  // [keys, rounded up to 4]

    static size_t bytes(int64_t width, int64_t keys_max) {
        return (20 * width + 16 * keys_max) * sizeof(float) + keys_max * sizeof(bf16*);
    }
    static AttentionScratch place(void* memory, int64_t width, int64_t keys_max) {
        float* at = reinterpret_cast<float*>(memory);
        return {at, at + 16 * width, at + 20 * width,
                reinterpret_cast<const bf16**>(at + 20 * width + 16 * keys_max)};
    }
};

// Rows of `compressed` that query i attends, or entries of its list.
static int64_t attended_rows(const SparseAttention& op, int64_t i) {
    if (!op.compressed) return 0;
    return op.ratio > 0 ? (op.position + i + 1) / op.ratio : op.k;
}

// Fills key[] in the order of the contract and returns how many there are. Nulls follow up to a
// multiple of 4.
static int64_t list_keys(const SparseAttention& op, int64_t i, const bf16** key) {
    int64_t count = 0, p = op.position + i, dim = op.dim;
    for (int64_t j = p >= op.window ? p - op.window + 1 : 0; j <= p; ++j)
        key[count++] =
            j >= op.position ? op.chunk + (j - op.position) * dim : op.buffer + j % op.window * dim;
    for (int64_t j = 0, rows = attended_rows(op, i); j < rows; ++j) {
        int64_t row = op.ratio > 0 ? j : op.topk[i * op.k + j];
        if (row >= 0) key[count++] = op.compressed + row * dim;
    }
    for (int64_t j = count; j % 4 != 0; ++j) key[j] = nullptr;
    return count;
}

static void attention_scores(const SparseAttention& op, const AttentionScratch& s, int64_t keys,
                             int32_t heads) {
    int64_t width = padded_width(op.dim);
    for (int64_t t = 0; t < keys; t += 4) {
        for (int j = 0; j < 4; ++j) widen(s.tile + j * width, s.key[t + j], op.dim);
        for (int32_t h = 0; h < heads; h += 4) {
            float scores[16];
            store(scores, dots_4x4(s.tile, s.q + h * width, width) * splat(op.scale));
            for (int j = 0; j < 4; ++j) memcpy(s.p + (t + j) * 16 + h, scores + 4 * j, 16);
        }
    }
}

// Turns scores into bf16(P), in place; returns the denominators.
static f32x16 attention_weights(float* p, int64_t keys, f32x16 sink) {
    f32x16 max = splat(-1e30f), sum = zero();
    for (int64_t t = 0; t < keys; ++t) {
        f32x16 score = load(p + t * 16);
        max = select(score > max, score, max);
    }
    for (int64_t t = 0; t < keys; ++t) {
        f32x16 e = exp_f32(load(p + t * 16) - max);
        sum = sum + e;
        store(p + t * 16, round_bf16(e));
    }
    return sum + exp_f32(sink - max);
}

// out[h][d .. d + 16 vectors) for four heads; a single vector may be cut to `left` values.
template <int vectors>
SLUICE_LANE void attention_values(bf16* out, int64_t dim, int32_t heads, const bf16* const* key,
                                  const float* p, int64_t keys, const float* den, int64_t d) {
    f32x16 sums[4][vectors] = {};
    int left = int(dim - d);
    for (int64_t t = 0; t < keys; ++t) {
        f32x16 k[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            k[v] =
                vectors == 1 && left < 16 ? load_tail(key[t] + d, left) : load(key[t] + d + 16 * v);
#pragma GCC unroll 4
        for (int h = 0; h < 4; ++h) {
            f32x16 weight = splat(p[t * 16 + h]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) sums[h][v] = mul_add_exact(weight, k[v], sums[h][v]);
        }
    }
    for (int h = 0; h < heads; ++h)
        for (int v = 0; v < vectors; ++v) {
            f32x16 y = sums[h][v] / splat(den[h]);
            bf16* to = out + h * dim + d + 16 * v;
            vectors == 1 && left < 16 ? store_tail(to, y, left) : store(to, y);
        }
}

static void attend(const SparseAttention& op, const AttentionScratch& s, int64_t i, int32_t head,
                   int32_t heads) {
    constexpr int wide = register_lanes == 16 ? 4 : 2;
    int64_t dim = op.dim, width = padded_width(dim), at = (i * op.heads + head) * dim;
    int64_t keys = list_keys(op, i, s.key);
    if (keys == 0) {
        memset(op.out + at, 0, heads * dim * sizeof(bf16));
        return;
    }
    float sink[16] = {}, den[16];
    memcpy(sink, op.sink + head, heads * sizeof(float));
    int32_t whole = (heads + 3) / 4 * 4;
    for (int32_t h = 0; h < whole; ++h)
        widen(s.q + h * width, h < heads ? op.q + at + h * dim : nullptr, dim);
    if (whole < 16) memset(s.p, 0, keys * 16 * sizeof(float));
    attention_scores(op, s, keys, whole);
    store(den, attention_weights(s.p, keys, load(sink)));
    for (int32_t h = 0; h < heads; h += 4) {
        int32_t four = heads - h < 4 ? heads - h : 4;
        bf16* out = op.out + at + h * dim;
        int64_t d = 0;
        for (; d + 16 * wide <= dim; d += 16 * wide)
            attention_values<wide>(out, dim, four, s.key, s.p + h, keys, den + h, d);
        for (; d < dim; d += 16)
            attention_values<1>(out, dim, four, s.key, s.p + h, keys, den + h, d);
    }
}

static void run(const SparseAttention& op, Team& team) {
    int64_t keys_max = (op.window + attended_rows(op, op.n - 1) + 3) / 4 * 4;
    size_t bytes = AttentionScratch::bytes(padded_width(op.dim), keys_max);
    bytes = (bytes + 63) / 64 * 64;
    char* memory = static_cast<char*>(reserve(team, bytes * team.threads));
    if (!memory) return;
    // Fewer heads per task when there are fewer tasks than threads.
    int32_t heads = attention_heads;
    while (heads > 4 && int64_t(op.n) * ((op.heads + heads - 1) / heads) < team.threads) heads /= 2;
    int64_t groups = (op.heads + heads - 1) / heads, items = op.n * groups;
    bool small = op.n * op.heads * keys_max * op.dim <= small_work;
#pragma omp parallel for schedule(dynamic) num_threads(team.threads) if (!small)
    for (int64_t item = 0; item < items; ++item) {
        auto scratch = AttentionScratch::place(memory + bytes * omp_get_thread_num(),
                                               padded_width(op.dim), keys_max);
        int32_t head = int32_t(item % groups) * heads;
        int32_t count = op.heads - head < heads ? op.heads - head : heads;
        attend(op, scratch, item / groups, head, count);
    }
}

static void run(const WindowStore& op, Team&) {
    int64_t dim = op.dim;
    for (int64_t i = op.n > op.window ? op.n - op.window : 0; i < op.n; ++i)
        memcpy(op.buffer + (op.position + i) % op.window * dim, op.chunk + i * dim,
               dim * sizeof(bf16));
}

}  // namespace sluice::cpu::SLUICE_ISA
