// Many rows of activations against an FP4 weight on the tile unit (AMX): 16 rows of weights times
// 16 rows of activations, one block of 32 at a time. The sums of a digit are exact integers, so the
// bits are those of fp4_panel().
//
//   A   [16 rows of weights][32]: twice the values of a block, even columns, then odd ones
//   B   [8][16 rows of activations][4]: a digit of a block, columns in the same order
//
// Activations use the memory of 16 DigitRows, as [blocks][3 digits][B] and scales [blocks][16].
// Missing rows may hold anything, which affects only their own results.
#pragma once

#include "kernels/cpu/fp4.h"

namespace sluice::cpu::SLUICE_ISA {

constexpr int32_t fp4_tile_rows = 16;  // of weights and of activations
#if defined(SLUICE_AMX)
constexpr bool fp4_has_tiles = true;
#else
constexpr bool fp4_has_tiles = false;
#endif
// With fewer rows, tiles do not pay.
constexpr int32_t fp4_tile_least = fp4_has_tiles ? 8 : fp4_panel_tokens + 1;

#if defined(SLUICE_AMX)

constexpr int64_t tile_digit_bytes = 512, tile_block_bytes = 3 * tile_digit_bytes;

// Cuts block b of row `token` of the 16 into digits: cut_block() in the other order.
SLUICE_LANE void cut_tile_block(const DigitRows& rows, int64_t token, int64_t b,
                                const uint8_t* codes, uint8_t scale_byte) {
    int8_t* block = rows.digits + b * tile_block_bytes + token * 4;
    for (int32_t k = 0; k < 32; ++k) {
        int32_t value = e4m3_to_int(codes[k < 16 ? 2 * k : 2 * k - 31]);
        int32_t rest = (value + 128) >> 8;
        int32_t last = (rest + 128) >> 8;
        int8_t* to = block + k / 4 * 64 + k % 4;
        to[0] = int8_t(value - rest * 256);
        to[tile_digit_bytes] = int8_t(rest - last * 256);
        to[2 * tile_digit_bytes] = int8_t(last);
    }
    rows.scale[b * fp4_tile_rows + token] = activation_scale(scale_byte);
}

// Tile registers: 0 is A, 1 to 3 are B, 4 to 6 their sums. They are this thread's until
// release_tiles().
SLUICE_LANE void configure_tiles() {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {};
    config.palette = 1;
    for (int i = 0; i < 7; ++i) {
        config.bytes[i] = i == 0 ? 32 : 64;
        config.rows[i] = i == 0 || i >= 4 ? 16 : 8;
    }
    _tile_loadconfig(&config);
}
SLUICE_LANE void release_tiles() {
    _tile_release();
}

// What a panel works on, in the core's cache.
struct TilePanel {
    alignas(64) int8_t weights[16][fp4_tile_rows][32];  // of 16 blocks
    alignas(64) float scales[fp4_tile_rows][16];
    alignas(64) int32_t sums[3][fp4_tile_rows][fp4_tile_rows];
    alignas(64) float lanes[8][fp4_tile_rows][fp4_tile_rows];
};

// Blocks b .. b + count - 1 of row r; count is at most 16.
SLUICE_LANE void load_tile_row(TilePanel& panel, int32_t r, const uint8_t* codes,
                               const uint8_t* scales, int64_t count) {
    __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
    __m512i mask = _mm512_set1_epi8(15);
    for (int64_t b = 0; b < count; b += 4) {
        int64_t left = count - b;
        __m512i c =
            left >= 4 ? _mm512_loadu_si512(codes + 16 * b)
                      : _mm512_maskz_loadu_epi8((__mmask64(1) << (16 * left)) - 1, codes + 16 * b);
        __m512i low = _mm512_shuffle_epi8(table, _mm512_and_si512(c, mask));
        __m512i high = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(c, 4), mask));
        // Blocks 0 and 1, 2 and 3; the even columns of each come before its odd ones.
        __m512i first =
            _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high);
        __m512i second =
            _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high);
        _mm256_store_si256(reinterpret_cast<__m256i*>(panel.weights[b][r]),
                           _mm512_castsi512_si256(first));
        _mm256_store_si256(reinterpret_cast<__m256i*>(panel.weights[b + 1][r]),
                           _mm512_extracti64x4_epi64(first, 1));
        _mm256_store_si256(reinterpret_cast<__m256i*>(panel.weights[b + 2][r]),
                           _mm512_castsi512_si256(second));
        _mm256_store_si256(reinterpret_cast<__m256i*>(panel.weights[b + 3][r]),
                           _mm512_extracti64x4_epi64(second, 1));
    }
    _mm512_store_ps(panel.scales[r], weight_scales(scales, count));
}

// Adds block b, the panel's block i, to the lanes of the first `rows` rows of weights.
SLUICE_LANE void add_tile_block(TilePanel& panel, int64_t i, int64_t b, int32_t rows,
                                const DigitRows& x) {
    const int8_t* digits = x.digits + b * tile_block_bytes;
    _tile_loadd(0, panel.weights[i], 32);
    _tile_loadd(1, digits, 64);
    _tile_loadd(2, digits + tile_digit_bytes, 64);
    _tile_loadd(3, digits + 2 * tile_digit_bytes, 64);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_dpbssd(4, 0, 1);
    _tile_dpbssd(5, 0, 2);
    _tile_dpbssd(6, 0, 3);
    _tile_stored(4, panel.sums[0], 64);
    _tile_stored(5, panel.sums[1], 64);
    _tile_stored(6, panel.sums[2], 64);
    __m512 x_scale = _mm512_load_ps(x.scale + b * fp4_tile_rows);
    for (int32_t r = 0; r < rows; ++r) {
        __m512i high = _mm512_slli_epi32(_mm512_load_si512(panel.sums[2][r]), 8);
        high = _mm512_add_epi32(_mm512_load_si512(panel.sums[1][r]), high);
        __m512i sum =
            _mm512_add_epi32(_mm512_load_si512(panel.sums[0][r]), _mm512_slli_epi32(high, 8));
        __m512 term = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), x_scale);
        term = _mm512_mul_ps(term, _mm512_set1_ps(panel.scales[r][i]));
        float* lane = panel.lanes[b % 8][r];
        _mm512_store_ps(lane, _mm512_add_ps(_mm512_load_ps(lane), term));
    }
}

// y[r][c] = row (row + r) of w times row c of x; at most 16 rows.
static void fp4_tiles(float (&y)[fp4_tile_rows][fp4_tile_rows], const Fp4Matrix& w, int64_t row,
                      int32_t rows, const DigitRows& x) {
    TilePanel panel;
    memset(panel.lanes, 0, sizeof panel.lanes);
    int64_t blocks = w.cols / 32;
    for (int64_t b = 0; b < blocks; b += 16) {
        int64_t count = blocks - b < 16 ? blocks - b : 16;
        for (int32_t r = 0; r < rows; ++r) {
            int64_t at = (row + r) * blocks + b;
            for (int64_t line = 0; line < 4; ++line)
                __builtin_prefetch(reinterpret_cast<const void*>(
                    reinterpret_cast<uintptr_t>(w.codes) + at * 16 + 256 + line * 64));
            load_tile_row(panel, r, w.codes + at * 16, w.scales + at, count);
        }
        for (int64_t i = 0; i < count; ++i) add_tile_block(panel, i, b + i, rows, x);
    }
    for (int32_t r = 0; r < rows; ++r) {
        auto lane = [&](int l) __attribute__((always_inline)) {
            return _mm512_load_ps(panel.lanes[l][r]);
        };
        __m512 even =
            _mm512_add_ps(_mm512_add_ps(lane(0), lane(4)), _mm512_add_ps(lane(2), lane(6)));
        __m512 odd =
            _mm512_add_ps(_mm512_add_ps(lane(1), lane(5)), _mm512_add_ps(lane(3), lane(7)));
        _mm512_storeu_ps(y[r], _mm512_add_ps(even, odd));
    }
}

#else

SLUICE_LANE void cut_tile_block(const DigitRows&, int64_t, int64_t, const uint8_t*, uint8_t) {}
SLUICE_LANE void configure_tiles() {}
SLUICE_LANE void release_tiles() {}
static void fp4_tiles(float (&)[fp4_tile_rows][fp4_tile_rows], const Fp4Matrix&, int64_t, int32_t,
                      const DigitRows&) {}

#endif

}  // namespace sluice::cpu::SLUICE_ISA
