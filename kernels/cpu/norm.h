// RmsNorm and HeadNorm. Memory-bound only when n is large; one row stays in L1 between its two
// passes.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// Dot of 16 of x with itself. bf16 squares are exact except at the ends of the range: not fused.
static float sum_of_squares(const bf16* x, int32_t count) {
    f32x16 sum = zero();
    int32_t k = 0;
    for (; k + 16 <= count; k += 16) {
        f32x16 v = load(x + k);
        sum = sum + v * v;
    }
    if (k < count) {
        f32x16 v = load_tail(x + k, count - k);
        sum = sum + v * v;
    }
    return tree_sum(sum);
}

static float inverse_rms(const bf16* x, int32_t count, float eps) {
    return 1.0f / __builtin_sqrtf(sum_of_squares(x, count) / float(count) + eps);
}

static void run(const RmsNorm& op, Team& team) {
    int64_t work = int64_t(op.n) * op.cols;
#pragma omp parallel for num_threads(team.threads) if (work > small_work && op.n > 1)
    for (int32_t i = 0; i < op.n; ++i) {
        const bf16* x = op.x + size_t(i) * op.cols;
        bf16* y = op.y + size_t(i) * op.cols;
        f32x16 r = splat(inverse_rms(x, op.cols, op.eps));
        int32_t k = 0;
        for (; k + 16 <= op.cols; k += 16) store(y + k, load(op.w + k) * (load(x + k) * r));
        if (k < op.cols) {
            int32_t left = op.cols - k;
            store_tail(y + k, load_tail(op.w + k, left) * (load_tail(x + k, left) * r), left);
        }
    }
}

static void norm_head(bf16* x, int32_t dim, float eps) {
    f32x16 sum = zero();
    for (int32_t k = 0; k < dim; k += 16) {
        f32x16 v = dim - k < 16 ? load_tail(x + k, dim - k) : load(x + k);
        sum = sum + round_bf16(v * v);
    }
    float m = sluice::round_bf16(tree_sum(sum) / float(dim));
    float rho = 1.0f / __builtin_sqrtf(sluice::round_bf16(m + eps));
    f32x16 factor = splat(sluice::round_bf16(rho));
    for (int32_t k = 0; k < dim; k += 16) {
        int32_t left = dim - k;
        f32x16 y = (left < 16 ? load_tail(x + k, left) : load(x + k)) * factor;
        left < 16 ? store_tail(x + k, y, left) : store(x + k, y);
    }
}

static void run(const HeadNorm& op, Team& team) {
    int64_t heads = int64_t(op.n) * op.heads;
#pragma omp parallel for num_threads(team.threads) if (heads * op.dim > small_work)
    for (int64_t head = 0; head < heads; ++head) norm_head(op.x + head * op.dim, op.dim, op.eps);
}

}  // namespace sluice::cpu::SLUICE_ISA
