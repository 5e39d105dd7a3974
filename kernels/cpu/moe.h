// Swiglu, RoutedExpert, Combine. RoutedExpert reads 1.5 D F bytes of codes and 0.09 D F bytes of
// scales for every 16 rows that chose the expert; everything else it touches stays in the caches.
#pragma once

#include "kernels/cpu/fp4.h"
#include "kernels/cpu/fp4_tiles.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

SLUICE_LANE f32x16 swiglu_lanes(f32x16 g, f32x16 u, float limit, const float* weight) {
    g = select(g > splat(limit), splat(limit), g);
    f32x16 silu = g / (splat(1.0f) + exp_f32(from_bits(bits(g) ^ splat_int(int32_t(0x80000000u)))));
    f32x16 a = silu * clamp(u, limit);
    return round_bf16(weight ? splat(*weight) * a : a);
}

// One quantised group of `blocks` blocks.
template <int blocks>
SLUICE_LANE void swiglu_group(const bf16* gate, const bf16* up, float limit, const float* weight,
                              uint8_t* codes, uint8_t* scales) {
    Block a[blocks];
    SLUICE_UNROLL for (int b = 0; b < blocks; ++b, gate += 32, up += 32) a[b] =
        Block{swiglu_lanes(load(gate), load(up), limit, weight),
              swiglu_lanes(load(gate + 16), load(up + 16), limit, weight)};
    act_quant_group(a, codes, scales);
}

template <int blocks>
static void swiglu(const Swiglu& op, Team& team) {
    constexpr int64_t size = 32 * blocks;
    int64_t row_groups = op.cols / size, groups = op.n * row_groups;
#pragma omp parallel for num_threads(team.threads) if (groups * size > small_work)
    for (int64_t g = 0; g < groups; ++g)
        swiglu_group<blocks>(op.gate + g * size, op.up + g * size, op.limit,
                             op.weights ? op.weights + g / row_groups : nullptr,
                             op.out.codes + g * size, op.out.scales + g * blocks);
}

static void run(const Swiglu& op, Team& team) {
    op.group == 128 ? swiglu<4>(op, team) : swiglu<1>(op, team);
}

// ---- RoutedExpert, RoutedExpertBatch ------------------------------------------------------------
//
// A round is what one parallel region does: up to round_rows rows of any of the experts, in passes
// that take a panel's rows over one expert each. Its four steps handle all passes together, so that
// the six experts of a token meet at four barriers and not at twenty-four.
constexpr int32_t expert_rows_max = fp4_panel_tokens;
constexpr int32_t round_rows = 64, round_passes = 16;
constexpr int64_t task_rows = 32;  // rows of weights that a thread takes at a time

struct ExpertPass {
    const RoutedExpert* op;
    int32_t first, rows;  // index into op's rows
    int32_t x_row;        // first row in Round::x
    int32_t row;          // first row in Round::inner, gate and up
    int32_t room;         // rows it occupies there: a tile is always whole

    bool tile() const { return rows >= fp4_tile_least; }
};

struct Round {
    ExpertPass passes[round_passes];
    int32_t count, rows, x_rows;
    int32_t pass_of[round_rows];  // the pass of each row
    // The rows of x that are cut into digits, each once; null: none. tile_of is the first row of a
    // row's tile, or -1.
    const uint8_t* codes[round_rows];
    const uint8_t* scales[round_rows];
    int32_t tile_of[round_rows];
    int64_t dim, inner_dim;
    DigitRows x, inner;
    bf16 *gate, *up;  // [rows][inner_dim]: w1 x and w3 x
};

SLUICE_LANE int64_t padded_blocks(int32_t cols) {
    return (cols / 32 + 15) / 16 * 16;
}
SLUICE_LANE size_t digit_rows_bytes(int32_t rows, int32_t cols) {
    return rows * padded_blocks(cols) * (digit_stride + sizeof(int32_t) + sizeof(float));
}
// Every part of a row is a multiple of 64 bytes for 16 blocks, so that all parts stay aligned.
SLUICE_LANE DigitRows place_digit_rows(int8_t*& at, int32_t rows, int32_t cols) {
    DigitRows placed;
    placed.blocks = padded_blocks(cols);
    placed.digits = at;
    placed.bias = reinterpret_cast<int32_t*>(placed.digits + rows * placed.blocks * digit_stride);
    placed.scale = reinterpret_cast<float*>(placed.bias + rows * placed.blocks);
    at = reinterpret_cast<int8_t*>(placed.scale + rows * placed.blocks);
    return placed;
}

// Cuts blocks 16 j .. 16 j + 15 of row `row`, which has `used` blocks, as quantise(block, codes,
// scales) returns them: `step` blocks at a time. Those past its end become zero, or keep their
// contents in a tile that begins at row `tile`.
template <int step, class Quantise>
static void cut_sixteen(const DigitRows& rows, int64_t row, int64_t tile, int64_t j, int64_t used,
                        Quantise quantise) {
    DigitRows to = rows.from(tile < 0 ? row : tile);
    int64_t end = 16 * j + 16;
    if (end > used) {
        if (tile < 0) clear_blocks(to, 16 * j, end);
        end = used;
    }
    for (int64_t b = 16 * j; b < end; b += step) {
        uint8_t codes[32 * step], scales[step];
        const uint8_t* from = quantise(b, codes, scales);
        for (int i = 0; i < step; ++i) {
            if (tile < 0)
                cut_block(to, b + i, from + 32 * i, scales[i]);
            else
                cut_tile_block(to, row - tile, b + i, from + 32 * i, scales[i]);
        }
    }
}

template <class Emit>
static void fp4_tile_outputs(const Fp4Matrix& w, int64_t first, int64_t end, const DigitRows& x,
                             int32_t rows, Emit emit) {
    for (int64_t row = first; row < end; row += fp4_tile_rows) {
        int32_t count = int32_t(end - row < fp4_tile_rows ? end - row : fp4_tile_rows);
        float y[fp4_tile_rows][fp4_tile_rows];
        fp4_tiles(y, w, row, count, x);
        for (int32_t r = 0; r < count; ++r)
            for (int32_t c = 0; c < rows; ++c) emit(row + r, c, to_bf16(y[r][c]));
    }
}

// Calls emit(row, c, y) for rows first .. end - 1 of w and every row c of x.
template <class Emit>
static void fp4_outputs(const Fp4Matrix& w, int64_t first, int64_t end, const DigitRows& x,
                        int32_t rows, Emit emit) {
    if (rows < 4) {
        for (int64_t row = first; row < end; ++row)
            for (int32_t c = 0; c < rows; ++c) emit(row, c, to_bf16(fp4_dot(w, row, x.from(c))));
        return;
    }
    if constexpr (fp4_has_tiles) {
        if (rows >= fp4_tile_least) return fp4_tile_outputs(w, first, end, x, rows, emit);
    }
    for (int64_t row = first; row < end; row += fp4_panel_rows) {
        int32_t count = int32_t(end - row < fp4_panel_rows ? end - row : fp4_panel_rows);
        float y[fp4_panel_rows][fp4_panel_tokens];
        fp4_panel(y, w, row, count, x, rows);
        for (int32_t r = 0; r < count; ++r)
            for (int32_t c = 0; c < rows; ++c) emit(row + r, c, to_bf16(y[r][c]));
    }
}

// The row of Round::x that holds the digits of these codes; experts of one token share it.
static int32_t place_x(Round& round, const RoutedExpert& op, int32_t row) {
    const uint8_t* codes = op.x.codes + op.rows[row] * round.dim;
    const uint8_t* scales = op.x.scales + op.rows[row] * (round.dim / 32);
    for (int32_t i = 0; i < round.x_rows; ++i)
        if (round.codes[i] == codes && round.scales[i] == scales && round.tile_of[i] < 0) return i;
    round.codes[round.x_rows] = codes;
    round.scales[round.x_rows] = scales;
    round.tile_of[round.x_rows] = -1;
    return round.x_rows++;
}

// Adds rows of op from `first` on; returns how many, 0 if the round is full.
static int32_t add_pass(Round& round, const RoutedExpert& op, int32_t first) {
    int32_t rows = op.count - first < expert_rows_max ? op.count - first : expert_rows_max;
    int32_t room = rows >= fp4_tile_least ? fp4_tile_rows : rows;
    bool fits = round.count < round_passes && round.rows + room <= round_rows &&
                (round.count == 0 ||
                 (op.expert.w1.cols == round.dim && op.expert.w1.rows == round.inner_dim));
    if (!fits) return 0;
    round.dim = op.expert.w1.cols;
    round.inner_dim = op.expert.w1.rows;
    ExpertPass pass = {&op, first, rows, round.x_rows, round.rows, room};
    if (rows == 1) {
        pass.x_row = place_x(round, op, first);
    } else {  // a panel needs its rows side by side
        for (int32_t c = 0; c < room; ++c, ++round.x_rows) {
            int64_t token = op.rows[first + (c < rows ? c : 0)];
            round.codes[round.x_rows] = c < rows ? op.x.codes + token * round.dim : nullptr;
            round.scales[round.x_rows] = op.x.scales + token * (round.dim / 32);
            round.tile_of[round.x_rows] = pass.tile() ? pass.x_row : -1;
        }
    }
    for (int32_t c = 0; c < room; ++c) round.pass_of[round.rows++] = round.count;
    round.passes[round.count++] = pass;
    return rows;
}

// Cuts x into digits.
static void cut_x(const Round& round) {
    int64_t parts = round.x.blocks / 16;
#pragma omp for
    for (int64_t item = 0; item < round.x_rows * parts; ++item) {
        int64_t row = item / parts;
        const uint8_t *codes = round.codes[row], *scales = round.scales[row];
        if (!codes) continue;
        cut_sixteen<1>(round.x, row, round.tile_of[row], item % parts, round.dim / 32,
                       [=](int64_t b, uint8_t*, uint8_t* scale) {
                           *scale = scales[b];
                           return codes + 32 * b;
                       });
    }
}

// gate = w1 x, up = w3 x.
static void gate_and_up(const Round& round) {
    int64_t inner = round.inner_dim, tasks = (inner + task_rows - 1) / task_rows;
#pragma omp for schedule(dynamic)
    for (int64_t item = 0; item < round.count * 2 * tasks; ++item) {
        const ExpertPass& pass = round.passes[item / (2 * tasks)];
        const ExpertWeights& e = pass.op->expert;
        int64_t task = item % (2 * tasks);
        bool is_gate = task < tasks;
        int64_t row = (is_gate ? task : task - tasks) * task_rows;
        int64_t end = row + task_rows < inner ? row + task_rows : inner;
        bf16* to = (is_gate ? round.gate : round.up) + pass.row * inner;
        fp4_outputs(is_gate ? e.w1 : e.w3, row, end, round.x.from(pass.x_row), pass.rows,
                    [=](int64_t r, int64_t c, bf16 y) { to[c * inner + r] = y; });
    }
}

// Sixteen blocks of a row of Swiglu(gate, up), in groups of `blocks` blocks, as digits.
template <int blocks>
static void cut_swiglu(const Round& round, const ExpertPass& pass, int64_t row, int64_t part) {
    int64_t inner = round.inner_dim;
    const bf16 *gate = round.gate + row * inner, *up = round.up + row * inner;
    const float* weight = pass.op->weights + pass.first + (row - pass.row);
    float limit = pass.op->limit;
    cut_sixteen<blocks>(round.inner, row, pass.tile() ? pass.row : -1, part, inner / 32,
                        [=](int64_t b, uint8_t* codes, uint8_t* scales) {
                            swiglu_group<blocks>(gate + 32 * b, up + 32 * b, limit, weight, codes,
                                                 scales);
                            return codes;
                        });
}

// inner = Swiglu(gate, up), as digits.
static void cut_inner(const Round& round) {
    int64_t parts = round.inner.blocks / 16;
#pragma omp for
    for (int64_t item = 0; item < round.rows * parts; ++item) {
        int64_t row = item / parts;
        const ExpertPass& pass = round.passes[round.pass_of[row]];
        if (row - pass.row >= pass.rows) continue;
        pass.op->group == 128 ? cut_swiglu<4>(round, pass, row, item % parts)
                              : cut_swiglu<1>(round, pass, row, item % parts);
    }
}

// out = w2 inner.
static void down(const Round& round) {
    int64_t dim = round.dim, tasks = (dim + task_rows - 1) / task_rows;
#pragma omp for schedule(dynamic)
    for (int64_t item = 0; item < round.count * tasks; ++item) {
        const ExpertPass& pass = round.passes[item / tasks];
        int64_t row = item % tasks * task_rows;
        int64_t end = row + task_rows < dim ? row + task_rows : dim;
        const int32_t* slots = pass.op->slots + pass.first;
        bf16* out = pass.op->out;
        fp4_outputs(pass.op->expert.w2, row, end, round.inner.from(pass.row), pass.rows,
                    [=](int64_t r, int64_t c, bf16 y) { out[slots[c] * dim + r] = y; });
    }
}

static void run_round(Round& round, Team& team) {
    int32_t dim = int32_t(round.dim), inner = int32_t(round.inner_dim);
    size_t values = size_t(round.rows) * inner;
    int8_t* at = static_cast<int8_t*>(reserve(team, digit_rows_bytes(round.x_rows, dim) +
                                                        digit_rows_bytes(round.rows, inner) +
                                                        2 * values * sizeof(bf16)));
    if (!at) return;
    round.x = place_digit_rows(at, round.x_rows, dim);
    round.inner = place_digit_rows(at, round.rows, inner);
    round.gate = reinterpret_cast<bf16*>(at);
    round.up = round.gate + values;
#pragma omp parallel num_threads(team.threads) if (round.count * round.dim * inner > small_work)
    {
        configure_tiles();
        cut_x(round);
        gate_and_up(round);
        cut_inner(round);
        down(round);
        release_tiles();
    }
}

static void run(const RoutedExpertBatch& op, Team& team) {
    Round round = {};
    for (int32_t i = 0; i < op.count; ++i)
        for (int32_t first = 0; first < op.items[i].count;) {
            int32_t rows = add_pass(round, op.items[i], first);
            first += rows;
            if (rows > 0) continue;
            run_round(round, team);
            round.count = round.rows = round.x_rows = 0;
        }
    if (round.count > 0) run_round(round, team);
}

static void run(const RoutedExpert& op, Team& team) {
    run(RoutedExpertBatch{&op, 1}, team);
}

// ---- Combine ------------------------------------------------------------------------------------
static void run(const Combine& op, Team& team) {
    int64_t chunks = (op.dim + 15) / 16, items = op.n * chunks;
#pragma omp parallel for num_threads(team.threads) if (items * 16 * op.k > small_work)
    for (int64_t item = 0; item < items; ++item) {
        int64_t i = item / chunks, d = item % chunks * 16;
        int left = int(op.dim - d);
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
