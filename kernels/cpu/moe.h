// Swiglu, RoutedExpert, Combine. RoutedExpert reads 1.5 D F bytes of codes and 0.09 D F of scales
// for every 16 rows that chose the expert; everything else it touches stays in the caches.
#pragma once

#include "kernels/cpu/fp4.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

SLUICE_LANE f32x16 swiglu_lanes(f32x16 g, f32x16 u, float limit, const float* weight) {
    g = select(g > splat(limit), splat(limit), g);
    f32x16 silu = g / (splat(1.0f) + exp_f32(from_bits(bits(g) ^ splat_int((int32_t)0x80000000u))));
    f32x16 a = silu * clamp(u, limit);
    return round_bf16(weight ? splat(*weight) * a : a);
}

// One block of 32, quantised.
SLUICE_LANE void swiglu_block(const bf16* gate, const bf16* up, float limit, const float* weight,
                              uint8_t* codes, uint8_t* scale) {
    Block a{swiglu_lanes(load(gate), load(up), limit, weight),
            swiglu_lanes(load(gate + 16), load(up + 16), limit, weight)};
    act_quant_block(a, codes, scale);
}

static void run(const Swiglu& op, Workspace& workspace) {
    int64_t row_blocks = op.cols / 32, blocks = op.n * row_blocks;
#pragma omp parallel for num_threads(workspace.threads) if (blocks * 32 > small_work)
    for (int64_t b = 0; b < blocks; ++b)
        swiglu_block(op.gate + b * 32, op.up + b * 32, op.limit,
                     op.weights ? op.weights + b / row_blocks : nullptr, op.out.codes + b * 32,
                     op.out.scales + b);
}

// ---- RoutedExpert
constexpr int32_t expert_rows_max = fp4_panel_tokens;
constexpr int64_t task_rows = 32;  // rows of weights a thread takes at a time

// What one pass over the expert keeps: digits of x and of the inner vector, w1 x and w3 x.
struct ExpertScratch {
    DigitRows x, inner;
    bf16* gate;  // [rows][F]
    bf16* up;
};

SLUICE_LANE int64_t padded_blocks(int32_t cols) {
    return (cols / 32 + 15) / 16 * 16;
}
SLUICE_LANE size_t digit_rows_bytes(int32_t rows, int32_t cols) {
    return rows * padded_blocks(cols) * (digit_stride + sizeof(int32_t) + sizeof(float));
}
// Every part of a row of 16 blocks is a multiple of 64 bytes, so all stays aligned.
SLUICE_LANE DigitRows place_digit_rows(int8_t*& at, int32_t rows, int32_t cols) {
    DigitRows placed;
    placed.blocks = padded_blocks(cols);
    placed.digits = at;
    placed.bias = (int32_t*)(placed.digits + rows * placed.blocks * digit_stride);
    placed.scale = (float*)(placed.bias + rows * placed.blocks);
    at = (int8_t*)(placed.scale + rows * placed.blocks);
    return placed;
}

// Cuts blocks 16 j .. 16 j + 15 of a row that has `used` blocks; those past its end become zero.
template <class Quantise>
static void cut_sixteen(const DigitRows& row, int64_t j, int64_t used, Quantise quantise) {
    int64_t end = 16 * j + 16;
    if (end > used) {
        clear_blocks(row, 16 * j, end);
        end = used;
    }
    for (int64_t b = 16 * j; b < end; ++b) {
        uint8_t codes[32], scale;
        const uint8_t* from = quantise(b, codes, &scale);
        cut_block(row, b, from, scale);
    }
}

// emit(row, c, y) for rows first .. end - 1 of w and every row c of x.
template <class Emit>
static void fp4_outputs(const Fp4Matrix& w, int64_t first, int64_t end, const DigitRows& x,
                        int32_t rows, Emit emit) {
    if (rows < 4) {
        for (int64_t row = first; row < end; ++row)
            for (int32_t c = 0; c < rows; ++c) emit(row, c, to_bf16(fp4_dot(w, row, x.from(c))));
        return;
    }
    for (int64_t row = first; row < end; row += fp4_panel_rows) {
        int32_t count = (int32_t)(end - row < fp4_panel_rows ? end - row : fp4_panel_rows);
        float y[fp4_panel_rows][fp4_panel_tokens];
        fp4_panel(y, w, row, count, x, rows);
        for (int32_t r = 0; r < count; ++r)
            for (int32_t c = 0; c < rows; ++c) emit(row + r, c, to_bf16(y[r][c]));
    }
}

// Rows first .. first + rows - 1 of op, all threads of the team together.
static void expert_pass(const RoutedExpert& op, const ExpertScratch& s, int32_t first,
                        int32_t rows) {
    const ExpertWeights& e = op.expert;
    int64_t dim = e.w1.cols, inner = e.w1.rows;
    int64_t x_parts = s.x.blocks / 16, inner_parts = s.inner.blocks / 16;
#pragma omp for
    for (int64_t item = 0; item < rows * x_parts; ++item) {
        int64_t c = item / x_parts, token = op.rows[first + c];
        const uint8_t* codes = op.x.codes + token * dim;
        const uint8_t* scales = op.x.scales + token * (dim / 32);
        cut_sixteen(s.x.from(c), item % x_parts, dim / 32,
                    [=](int64_t b, uint8_t*, uint8_t* scale) {
                        *scale = scales[b];
                        return codes + 32 * b;
                    });
    }
    int64_t inner_tasks = (inner + task_rows - 1) / task_rows;
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < 2 * inner_tasks; ++task) {
        bool is_gate = task < inner_tasks;
        int64_t row = (is_gate ? task : task - inner_tasks) * task_rows;
        int64_t end = row + task_rows < inner ? row + task_rows : inner;
        bf16* to = is_gate ? s.gate : s.up;
        fp4_outputs(is_gate ? e.w1 : e.w3, row, end, s.x, rows,
                    [=](int64_t r, int64_t c, bf16 y) { to[c * inner + r] = y; });
    }
#pragma omp for
    for (int64_t item = 0; item < rows * inner_parts; ++item) {
        int64_t c = item / inner_parts;
        const bf16 *gate = s.gate + c * inner, *up = s.up + c * inner;
        const float* weight = op.weights + first + c;
        float limit = op.limit;
        cut_sixteen(s.inner.from(c), item % inner_parts, inner / 32,
                    [=](int64_t b, uint8_t* codes, uint8_t* scale) {
                        swiglu_block(gate + 32 * b, up + 32 * b, limit, weight, codes, scale);
                        return codes;
                    });
    }
    const int32_t* slots = op.slots + first;
    bf16* out = op.out;
#pragma omp for schedule(dynamic)
    for (int64_t row = 0; row < dim; row += task_rows) {
        int64_t end = row + task_rows < dim ? row + task_rows : dim;
        fp4_outputs(e.w2, row, end, s.inner, rows,
                    [=](int64_t r, int64_t c, bf16 y) { out[slots[c] * dim + r] = y; });
    }
}

static void run(const RoutedExpert& op, Workspace& workspace) {
    if (op.count == 0) return;
    int32_t dim = op.expert.w1.cols, inner = op.expert.w1.rows;
    int32_t rows_max = op.count < expert_rows_max ? op.count : expert_rows_max;
    size_t values = (size_t)rows_max * inner;
    int8_t* at = (int8_t*)reserve(workspace, digit_rows_bytes(rows_max, dim) +
                                                 digit_rows_bytes(rows_max, inner) +
                                                 2 * values * sizeof(bf16));
    if (!at) return;
    ExpertScratch scratch;
    scratch.x = place_digit_rows(at, rows_max, dim);
    scratch.inner = place_digit_rows(at, rows_max, inner);
    scratch.gate = (bf16*)at;
    scratch.up = scratch.gate + values;
#pragma omp parallel num_threads(workspace.threads) if ((int64_t)dim * inner > small_work)
    for (int32_t first = 0; first < op.count; first += expert_rows_max) {
        int32_t left = op.count - first;
        expert_pass(op, scratch, first, left < expert_rows_max ? left : expert_rows_max);
    }
}

// ---- Combine
static void run(const Combine& op, Workspace& workspace) {
    int64_t chunks = (op.dim + 15) / 16, items = op.n * chunks;
#pragma omp parallel for num_threads(workspace.threads) if (items * 16 * op.k > small_work)
    for (int64_t item = 0; item < items; ++item) {
        int64_t i = item / chunks, d = item % chunks * 16;
        int left = (int)(op.dim - d);
        const bf16* partial = op.partial + i * op.k * op.dim + d;
        const bf16* shared = op.shared + i * op.dim + d;
        f32x16 sum = zero();
        for (int64_t k = 0; k < op.k; ++k) {
            const bf16* from = partial + k * op.dim;
            sum = sum + (left < 16 ? load_tail(from, left) : load(from));
        }
        sum = sum + (left < 16 ? load_tail(shared, left) : load(shared));
        bf16* to = op.y + i * op.dim + d;
        left < 16 ? store_tail(to, sum, left) : store(to, sum);
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
