// LinearFp8, GroupedOutput and LinearBf16. Activations are converted to fp32 once for a chunk of
// tokens; then every thread takes groups of output rows.
#pragma once

#include "kernels/cpu/fp8.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

constexpr int32_t chunk_tokens = 64;  // limits the scratch, and is long enough to reuse weights

// Scratch of a chunk: `vectors` activation vectors of `cols` values, with a flag each.
struct ChunkInputs {
    float* x;
    uint8_t* safe;
};
static ChunkInputs reserve_inputs(Team& team, size_t vectors, int32_t cols) {
    size_t floats = vectors * cols;
    char* memory = static_cast<char*>(reserve(team, floats * sizeof(float) + vectors));
    return {reinterpret_cast<float*>(memory),
            memory ? reinterpret_cast<uint8_t*>(memory + floats * sizeof(float)) : nullptr};
}

static void dequantise(const uint8_t* codes, const uint8_t* scales, int32_t cols, float* x) {
    for (int32_t b = 0; b < cols / 32; ++b) {
        CodeLanes v = decode(codes + 32 * b);
        NanCodes check;
        check.see(codes + 32 * b);
        // The factor 2^8 is applied to the codes: a scale near the top of the range has no room for
        // it.
        f32x16 s = splat(e8m0_to_float(scales[b])), whole = splat(256.0f);
        store(x + 32 * b, (v.low * whole) * s);
        store(x + 32 * b + 16, (v.high * whole) * s);
        if (check.any())
            for (int k = 32 * b; k < 32 * b + 32; ++k)
                x[k] = e4m3_to_float(codes[k]) * e8m0_to_float(scales[b]);
    }
}

static void run(const LinearFp8& op, Team& team) {
    int32_t cols = op.w.cols, rows = op.w.rows;
    int32_t chunk = op.n < chunk_tokens ? op.n : chunk_tokens;
    ChunkInputs to = reserve_inputs(team, chunk, cols);
    if (!to.x) return;
    int32_t groups = (rows + panel_rows - 1) / panel_rows;
#pragma omp parallel num_threads(team.threads)
    for (int32_t first = 0; first < op.n; first += chunk) {
        int32_t n = op.n - first < chunk ? op.n - first : chunk;
#pragma omp for
        for (int32_t i = 0; i < n; ++i) {
            float* x = to.x + size_t(i) * cols;
            size_t at = size_t(first + i) * cols;
            dequantise(op.x.codes + at, op.x.scales + at / 32, cols, x);
            to.safe[i] = values_safe(x, cols);
        }
        Fp8Inputs in{to.x, to.safe, cols, 1};
#pragma omp for
        for (int32_t g = 0; g < groups; ++g) {
            int32_t row = g * panel_rows;
            int32_t count = rows - row < panel_rows ? rows - row : panel_rows;
            fp8_outputs(op.w, row, count, in, n, op.y + size_t(first) * rows + row, rows);
        }
    }
}

static void run(const GroupedOutput& op, Team& team) {
    int32_t cols = op.w.cols, rows = op.w.rows, rank = rows / op.groups;
    int32_t chunk = op.n < chunk_tokens ? op.n : chunk_tokens;
    ChunkInputs to = reserve_inputs(team, size_t(chunk) * op.groups, cols);
    if (!to.x) return;
    int32_t items = (rows + panel_rows - 1) / panel_rows;
#pragma omp parallel num_threads(team.threads)
    for (int32_t first = 0; first < op.n; first += chunk) {
        int32_t n = op.n - first < chunk ? op.n - first : chunk;
#pragma omp for
        for (int32_t v = 0; v < n * op.groups; ++v) {
            float* x = to.x + size_t(v) * cols;
            const bf16* o = op.o + (size_t(first) * op.groups + v) * cols;
            for (int32_t k = 0; k < cols; k += 16) store(x + k, load(o + k));
            to.safe[v] = values_safe(x, cols);
        }
#pragma omp for
        for (int32_t item = 0; item < items; ++item) {
            int32_t row = item * panel_rows;
            int32_t end = rows - row < panel_rows ? rows : row + panel_rows;
            while (row < end) {  // a group of outputs may end inside the item
                int32_t group = row / rank;
                int32_t stop = end < (group + 1) * rank ? end : (group + 1) * rank;
                Fp8Inputs in{to.x + size_t(group) * cols, to.safe + group,
                             int64_t(op.groups) * cols, op.groups};
                fp8_outputs(op.w, row, stop - row, in, n, op.t + size_t(first) * rows + row, rows);
                row = stop;
            }
        }
    }
}

// ---- BF16 ---------------------------------------------------------------------------------------

SLUICE_LANE vf load_part(const bf16* x) {
    vh h;
    memcpy(&h, x, sizeof h);
    return vf(widen(h) << 16);
}

constexpr int32_t bf16_panel = 1024;  // columns between two updates of the sums in memory

// lanes[r][t][..] += columns [first, end) of row r x token t, for one register's share of the
// lanes. Products may be rounded (subnormal) or overflow, so they are not fused.
template <int rows, int tokens>
static void bf16_part(const bf16* w, const bf16* x, int32_t cols, int32_t first, int32_t end,
                      float* lanes) {
    vf sum[rows][tokens];
    SLUICE_UNROLL for (int r = 0; r < rows; ++r) SLUICE_UNROLL for (int t = 0; t < tokens; ++t)
        memcpy(&sum[r][t], lanes + (r * tokens + t) * 16, sizeof(vf));
    for (int32_t k = first; k < end; k += 16) {
        vf v[tokens];
        SLUICE_UNROLL for (int t = 0; t < tokens; ++t) v[t] = load_part(x + size_t(t) * cols + k);
        SLUICE_UNROLL for (int r = 0; r < rows; ++r) {
            const bf16* at = w + size_t(r) * cols + k;
            if (tokens <= 2) __builtin_prefetch(at + size_t(rows) * cols);  // the next rows
            vf u = load_part(at);
            SLUICE_UNROLL for (int t = 0; t < tokens; ++t) sum[r][t] = sum[r][t] + u * v[t];
        }
    }
    SLUICE_UNROLL for (int r = 0; r < rows; ++r) SLUICE_UNROLL for (int t = 0; t < tokens; ++t)
        memcpy(lanes + (r * tokens + t) * 16, &sum[r][t], sizeof(vf));
}

// y[t * rows + r] = dot of 16 of row r with token t.
template <int rows, int tokens>
static void bf16_tile(const bf16* w, const bf16* x, int32_t cols, float* y) {
    float lanes[rows * tokens * 16] = {};
    int32_t whole = cols / 16 * 16;
    for (int32_t k = 0; k < whole; k += bf16_panel) {
        int32_t end = whole - k < bf16_panel ? whole : k + bf16_panel;
        for (int p = 0; p < registers; ++p) {
            int32_t lane = p * register_lanes;
            bf16_part<rows, tokens>(w + lane, x + lane, cols, k, end, lanes + lane);
        }
    }
    for (int r = 0; r < rows; ++r)
        for (int t = 0; t < tokens; ++t) {
            float* lane = lanes + (r * tokens + t) * 16;
            for (int32_t k = whole; k < cols; ++k)
                lane[k - whole] = lane[k - whole] + to_float(w[size_t(r) * cols + k]) *
                                                        to_float(x[size_t(t) * cols + k]);
            y[t * rows + r] = tree_sum(load(lane));
        }
}

template <int rows>
static void bf16_rows(const LinearBf16& op, int32_t row, int32_t first, int32_t n) {
    const bf16* w = op.w.data + size_t(row) * op.w.cols;
    for (int32_t i = first, tokens = 0; i < first + n; i += tokens) {
        float y[tile_tokens * rows];
        const bf16* x = op.x + size_t(i) * op.w.cols;
        int32_t left = first + n - i;
        tokens = left >= tile_tokens ? tile_tokens : left >= 2 ? 2 : 1;
        if (tokens == tile_tokens)
            bf16_tile<rows, tile_tokens>(w, x, op.w.cols, y);
        else if (tokens == 2)
            bf16_tile<rows, 2>(w, x, op.w.cols, y);
        else
            bf16_tile<rows, 1>(w, x, op.w.cols, y);
        for (int32_t t = 0; t < tokens; ++t)
            for (int32_t r = 0; r < rows; ++r) {
                size_t at = size_t(i + t) * op.w.rows + row + r;
                if (op.y_bf16)
                    op.y_bf16[at] = to_bf16(y[t * rows + r]);
                else
                    op.y_f32[at] = y[t * rows + r];
            }
    }
}

static void run(const LinearBf16& op, Team& team) {
    int32_t groups = (op.w.rows + tile_rows - 1) / tile_rows;
    int32_t chunks = (op.n + chunk_tokens - 1) / chunk_tokens;
#pragma omp parallel for num_threads(team.threads) if (int64_t(op.n) * groups * op.w.cols > \
                                                       small_work)
    for (int64_t item = 0; item < int64_t(chunks) * groups; ++item) {
        int32_t first = int32_t(item / groups) * chunk_tokens;
        int32_t row = int32_t(item % groups) * tile_rows;
        int32_t n = op.n - first < chunk_tokens ? op.n - first : chunk_tokens;
        if (row + tile_rows <= op.w.rows)
            bf16_rows<tile_rows>(op, row, first, n);
        else
            for (; row < op.w.rows; ++row) bf16_rows<1>(op, row, first, n);
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
