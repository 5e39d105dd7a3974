// Hyper-connections: HyperMix reads fn (fp32, the largest operand) once per few tokens;
// HyperCollapse and HyperExpand pass over the streams once.
#pragma once

#include "kernels/cpu/norm.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// m[token][row] = dot of 16 of rows of fn with tokens.
template <int tokens, int rows>
static void mix_rows(const float* fn, const bf16* u, int32_t width, float* m, int32_t m_stride) {
    f32x16 sum[tokens][rows];
    SLUICE_UNROLL for (int t = 0; t < tokens; ++t) SLUICE_UNROLL for (int r = 0; r < rows; ++r)
        sum[t][r] = zero();
    auto step = [&](int32_t k, auto fetch_f, auto fetch_u) __attribute__((always_inline)) {
        f32x16 f[rows];
        SLUICE_UNROLL for (int r = 0; r < rows; ++r) {
            const float* at = fn + size_t(r) * width + k;
            if (tokens > 1) __builtin_prefetch(at + size_t(rows) * width);  // the next rows
            f[r] = fetch_f(at);
        }
        SLUICE_UNROLL for (int t = 0; t < tokens; ++t) {
            f32x16 x = fetch_u(u + size_t(t) * width + k);
            SLUICE_UNROLL for (int r = 0; r < rows; ++r) sum[t][r] = sum[t][r] + f[r] * x;
        }
    };
    int32_t k = 0;
    for (; k + 16 <= width; k += 16)
        step(
            k, [](const float* p) { return load(p); }, [](const bf16* p) { return load(p); });
    int left = width - k;
    if (left > 0)
        step(
            k, [left](const float* p) { return load_tail(p, left); },
            [left](const bf16* p) { return load_tail(p, left); });
    SLUICE_UNROLL for (int t = 0; t < tokens; ++t) SLUICE_UNROLL for (int r = 0; r < rows; ++r)
        m[t * m_stride + r] = tree_sum(sum[t][r]);
}

// Rows of fn.
static int32_t mix_count(const HyperMix& op) {
    return op.post ? (2 + op.hc) * op.hc : op.hc;
}

// Rows row .. row + count - 1 of the mixes of `tokens` tokens.
template <int tokens>
static void mix_range(const HyperMix& op, int32_t token, int32_t row, int32_t count, float* m) {
    int32_t width = op.hc * op.dim, mixes = mix_count(op);
    const bf16* u = op.h + size_t(token) * width;
    float* to = m + size_t(token) * mixes;
    int32_t end = row + count;
    for (; row + 2 <= end; row += 2)
        mix_rows<tokens, 2>(op.fn.data + size_t(row) * width, u, width, to + row, mixes);
    if (row < end) mix_rows<tokens, 1>(op.fn.data + size_t(row) * width, u, width, to + row, mixes);
}

static void softmax_row(float* c, int32_t count, float eps) {
    float max = c[0], sum = 0;
    for (int32_t k = 1; k < count; ++k) max = c[k] > max ? c[k] : max;
    for (int32_t k = 0; k < count; ++k) {
        c[k] = sluice::exp_f32(c[k] - max);
        sum = sum + c[k];
    }
    for (int32_t k = 0; k < count; ++k) c[k] = c[k] / sum + eps;
}

// Divides c[i * outer + k * inner] by its sum over k + eps, for every i.
static void normalise(float* c, int32_t hc, int32_t outer, int32_t inner, float eps) {
    for (int32_t i = 0; i < hc; ++i) {
        float sum = 0;
        for (int32_t k = 0; k < hc; ++k) sum = sum + c[i * outer + k * inner];
        sum = sum + eps;
        for (int32_t k = 0; k < hc; ++k) c[i * outer + k * inner] = c[i * outer + k * inner] / sum;
    }
}

static void mix_token(const HyperMix& op, int32_t i, const float* dots) {
    int32_t hc = op.hc;
    float r = inverse_rms(op.h + size_t(i) * hc * op.dim, hc * op.dim, op.eps);
    float* pre = op.pre + size_t(i) * hc;
    for (int32_t j = 0; j < hc; ++j)
        pre[j] = sigmoid_f32((dots[j] * r) * op.scale[0] + op.base[j]) + op.hc_eps;
    if (!op.post) return;
    float* post = op.post + size_t(i) * hc;
    float* c = op.comb + size_t(i) * hc * hc;
    for (int32_t j = 0; j < hc; ++j)
        post[j] = 2.0f * sigmoid_f32((dots[hc + j] * r) * op.scale[1] + op.base[hc + j]);
    for (int32_t j = 0; j < hc * hc; ++j)
        c[j] = (dots[2 * hc + j] * r) * op.scale[2] + op.base[2 * hc + j];
    for (int32_t j = 0; j < hc; ++j) softmax_row(c + j * hc, hc, op.hc_eps);
    normalise(c, hc, 1, hc, op.hc_eps);
    for (int32_t step = 1; step < op.iterations; ++step) {
        normalise(c, hc, hc, 1, op.hc_eps);
        normalise(c, hc, 1, hc, op.hc_eps);
    }
}

static void run(const HyperMix& op, Team& team) {
    constexpr int32_t group = 4;  // tokens that share one pass over fn
    int32_t mixes = mix_count(op);
    float* m = static_cast<float*>(reserve(team, sizeof(float) * op.n * mixes));
    if (!m) return;
    int32_t rows = op.n < group * team.threads ? 2 : mixes;
    int64_t bands = (mixes + rows - 1) / rows;
    int64_t items = bands * ((op.n + group - 1) / group);
#pragma omp parallel num_threads(team.threads)
    {
#pragma omp for
        for (int64_t item = 0; item < items; ++item) {
            int32_t token = int32_t(item / bands) * group, row = int32_t(item % bands) * rows;
            int32_t count = mixes - row < rows ? mixes - row : rows;
            switch (op.n - token) {
                case 1:
                    mix_range<1>(op, token, row, count, m);
                    break;
                case 2:
                    mix_range<2>(op, token, row, count, m);
                    break;
                case 3:
                    mix_range<3>(op, token, row, count, m);
                    break;
                default:
                    mix_range<group>(op, token, row, count, m);
            }
        }
#pragma omp for
        for (int32_t i = 0; i < op.n; ++i) mix_token(op, i, m + size_t(i) * mixes);
    }
}

static void run(const HyperCollapse& op, Team& team) {
    int64_t work = int64_t(op.n) * op.hc * op.dim;
#pragma omp parallel for num_threads(team.threads) if (work > small_work && op.n > 1)
    for (int32_t i = 0; i < op.n; ++i) {
        const float* pre = op.pre + size_t(i) * op.hc;
        const bf16* h = op.h + size_t(i) * op.hc * op.dim;
        bf16* x = op.x + size_t(i) * op.dim;
        for (int32_t d = 0; d < op.dim; d += 16) {
            int32_t left = op.dim - d;
            f32x16 sum;
            for (int32_t j = 0; j < op.hc; ++j) {
                const bf16* at = h + size_t(j) * op.dim + d;
                f32x16 term = splat(pre[j]) * (left < 16 ? load_tail(at, left) : load(at));
                sum = j == 0 ? term : sum + term;
            }
            left < 16 ? store_tail(x + d, sum, left) : store(x + d, sum);
        }
    }
}

// Sixteen features of one token, of which the first `left` exist. `count` is the number of streams,
// or the largest number possible; then op.hc of them are used.
template <int count>
SLUICE_LANE void expand_lanes(const HyperExpand& op, int32_t i, int32_t d) {
    int32_t hc = count == max_hyper ? op.hc : count, left = op.dim - d;
    bf16* h = op.h + size_t(i) * hc * op.dim + d;
    const bf16* x_at = op.x + size_t(i) * op.dim + d;
    const float* post = op.post + size_t(i) * hc;
    const float* comb = op.comb + size_t(i) * hc * hc;
    f32x16 x = left < 16 ? load_tail(x_at, left) : load(x_at);
    f32x16 old[count] = {};
#pragma GCC unroll 4
    for (int32_t j = 0; j < hc; ++j) {
        const bf16* at = h + size_t(j) * op.dim;
        old[j] = left < 16 ? load_tail(at, left) : load(at);
    }
#pragma GCC unroll 4
    for (int32_t k = 0; k < hc; ++k) {
        f32x16 s = splat(comb[k]) * old[0];
#pragma GCC unroll 4
        for (int32_t j = 1; j < hc; ++j) s = s + splat(comb[j * hc + k]) * old[j];
        f32x16 y = splat(post[k]) * x + s;
        bf16* at = h + size_t(k) * op.dim;
        left < 16 ? store_tail(at, y, left) : store(at, y);
    }
}

static void run(const HyperExpand& op, Team& team) {
    int32_t chunks = (op.dim + 15) / 16;
    int64_t items = int64_t(op.n) * chunks;
    bool four = op.hc == 4;
#pragma omp parallel for num_threads(team.threads) if (items * 16 * op.hc > small_work)
    for (int64_t item = 0; item < items; ++item) {
        int32_t i = int32_t(item / chunks), d = int32_t(item % chunks) * 16;
        four ? expand_lanes<4>(op, i, d) : expand_lanes<max_hyper>(op, i, d);
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
