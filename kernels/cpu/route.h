// Route: the logits of the gate, four experts at a time, then one selection per token.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// z[t * z_stride + r] = row r of w times token t; `rows` rows and `tokens` tokens share their
// loads.
template <int rows, int tokens>
static void gate_logits(const bf16* w, const bf16* x, int64_t dim, float* z, int64_t z_stride) {
    f32x16 sums[rows][tokens] = {};
    for (int64_t k = 0; k < dim; k += 16) {
        int left = dim - k < 16 ? int(dim - k) : 16;
        f32x16 v[tokens];
#pragma GCC unroll 4
        for (int t = 0; t < tokens; ++t)
            v[t] = left < 16 ? load_tail(x + t * dim + k, left) : load(x + t * dim + k);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            f32x16 u = left < 16 ? load_tail(w + r * dim + k, left) : load(w + r * dim + k);
#pragma GCC unroll 4
            for (int t = 0; t < tokens; ++t) sums[r][t] = mul_add_exact(u, v[t], sums[r][t]);
        }
    }
    for (int r = 0; r < rows; ++r)
        for (int t = 0; t < tokens; ++t) z[t * z_stride + r] = tree_sum(sums[r][t]);
}

// The k largest of `biased`, in ids. The biased score of a chosen expert becomes NaN.
static void largest_scores(float* biased, int32_t experts, int32_t k, int32_t* ids) {
    for (int32_t j = 0; j < k; ++j) {
        int32_t best = -1;
        for (int32_t e = 0; e < experts; ++e)
            if (biased[e] == biased[e] && (best < 0 || biased[e] > biased[best])) best = e;
        biased[best] = float_of(0x7fc00000u);
        ids[j] = best;
    }
}

// score holds logits on entry.
static void choose_experts(const Route& op, int64_t i, float* score, float* biased) {
    int32_t experts = op.gate.rows;
    int32_t* ids = op.ids + i * op.k;
    float* weights = op.weights + i * op.k;
    bool nan = false;
    for (int32_t e = 0; e < experts; ++e) {
        score[e] = __builtin_sqrtf(softplus_f32(score[e]));
        biased[e] = op.given ? score[e] : score[e] + op.bias[e];
        nan = nan || biased[e] != biased[e];
    }
    if (!nan && !op.given) largest_scores(biased, experts, op.k, ids);
    float sum = 0;
    for (int32_t j = 0; j < op.k && !nan; ++j) {
        weights[j] = score[ids[j]];
        sum = sum + weights[j];
    }
    for (int32_t j = 0; j < op.k; ++j) {
        if (nan) {
            ids[j] = -1;
            weights[j] = float_of(0x7fc00000u);
            continue;
        }
        bool divide = op.k > 1 || op.normalise_one;
        float w = divide ? weights[j] / (sum + op.sum_floor) : weights[j];
        weights[j] = w * op.scale;
    }
}

static void run(const Route& op, Team& team) {
    constexpr int64_t rows = 4, tokens = register_lanes == 16 ? 4 : 1;
    int64_t experts = op.gate.rows, dim = op.gate.cols, groups = (experts + rows - 1) / rows;
    float* z = static_cast<float*>(reserve(team, 2 * op.n * experts * sizeof(float)));
    if (!z) return;
#pragma omp parallel num_threads(team.threads) if (op.n * experts * dim > small_work)
    {
#pragma omp for
        for (int64_t group = 0; group < groups; ++group)
            for (int64_t i = 0; i < op.n;) {
                int64_t r = group * rows;
                const bf16* w = op.gate.data + r * dim;
                const bf16* x = op.x + i * dim;
                float* to = z + i * experts + r;
                if (r + rows > experts) {
                    for (; r < experts; ++r, w += dim) gate_logits<1, 1>(w, x, dim, to++, experts);
                    ++i;
                } else if (i + tokens <= op.n) {
                    gate_logits<rows, tokens>(w, x, dim, to, experts);
                    i += tokens;
                } else {
                    gate_logits<rows, 1>(w, x, dim, to, experts);
                    ++i;
                }
            }
#pragma omp for
        for (int64_t i = 0; i < op.n; ++i)
            choose_experts(op, i, z + i * experts, z + (op.n + i) * experts);
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
