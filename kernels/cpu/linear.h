// LinearFp8, GroupedOutput and LinearBf16.
//
// The FP8 kernels work on the bare value times 2^-8, which is what an E4M3 code is when its bits
// are placed in a half float, and put 2^8 into the scale. That, and fusing multiply with add, gives
// the bits of kernels/ops.h as long as every product is exact: activations 0 or 2^-80 .. 2^80,
// weight scales 2^-50 .. 2^30. Rows outside, and rows with NaN codes, take the plain path.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// The contract, literally: one output.
static float fp8_output_plain(const Fp8Matrix& w, int32_t row, const float* x) {
    const uint8_t* codes = w.codes + (size_t)row * w.cols;
    const uint8_t* scales = w.scales + (size_t)(row / 32) * (w.cols / 32);
    f32x16 sum = zero();
    for (int32_t b = 0; b < w.cols / 32; ++b) {
        float v[32];
        for (int k = 0; k < 32; ++k) v[k] = e4m3_to_float(codes[32 * b + k]);
        f32x16 t = load(v) * load(x + 32 * b) + load(v + 16) * load(x + 32 * b + 16);
        sum = sum + t * splat(e8m0_to_float(scales[b]));
    }
    return tree_sum(sum);
}

static void run(const LinearFp8& op, Workspace& workspace) {
    int32_t cols = op.w.cols, rows = op.w.rows;
    float* x = (float*)reserve(workspace, sizeof(float) * op.n * cols);
    if (!x) return;
#pragma omp parallel num_threads(workspace.threads)
    {
#pragma omp for
        for (int64_t b = 0; b < (int64_t)op.n * (cols / 32); ++b) {
            float s = e8m0_to_float(op.x.scales[b]);
            for (int k = 0; k < 32; ++k) x[b * 32 + k] = e4m3_to_float(op.x.codes[b * 32 + k]) * s;
        }
#pragma omp for
        for (int32_t r = 0; r < rows; ++r)
            for (int32_t i = 0; i < op.n; ++i)
                op.y[(size_t)i * rows + r] =
                    to_bf16(fp8_output_plain(op.w, r, x + (size_t)i * cols));
    }
}

static void run(const GroupedOutput& op, Workspace& workspace) {
    int32_t cols = op.w.cols, rows = op.w.rows, rank = rows / op.groups;
    float* x = (float*)reserve(workspace, sizeof(float) * op.n * op.groups * cols);
    if (!x) return;
#pragma omp parallel num_threads(workspace.threads)
    {
#pragma omp for
        for (int64_t k = 0; k < (int64_t)op.n * op.groups * cols; ++k) x[k] = to_float(op.o[k]);
#pragma omp for
        for (int32_t r = 0; r < rows; ++r)
            for (int32_t i = 0; i < op.n; ++i)
                op.t[(size_t)i * rows + r] = to_bf16(
                    fp8_output_plain(op.w, r, x + ((size_t)i * op.groups + r / rank) * cols));
    }
}

static float dot16(const bf16* a, const bf16* b, int32_t count) {
    f32x16 sum = zero();
    int32_t k = 0;
    for (; k + 16 <= count; k += 16) sum = sum + load(a + k) * load(b + k);
    if (k < count) sum = sum + load_tail(a + k, count - k) * load_tail(b + k, count - k);
    return tree_sum(sum);
}

static void run(const LinearBf16& op, Workspace& workspace) {
    int32_t cols = op.w.cols, rows = op.w.rows;
#pragma omp parallel for num_threads(workspace.threads)
    for (int32_t r = 0; r < rows; ++r)
        for (int32_t i = 0; i < op.n; ++i) {
            float y = dot16(op.w.data + (size_t)r * cols, op.x + (size_t)i * cols, cols);
            size_t at = (size_t)i * rows + r;
            if (op.y_bf16)
                op.y_bf16[at] = to_bf16(y);
            else
                op.y_f32[at] = y;
        }
}

}  // namespace sluice::cpu::SLUICE_ISA
