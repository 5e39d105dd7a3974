// Linear with an FP4 weight, in exact integers per block (RoutedExpert in kernels/ops.h).
//
// An activation is an integer of 18 bits and a sign. It is cut once into digits small enough for
// the integer multiply-add of the instruction set. Weights are used as stored: their nibbles are
// looked up.
//
//   avx2, avx512   three signed base-256 digits. Even and odd columns of a block are split, as the
//                  low and high nibbles are. Weights are made unsigned by adding 12 to twice their
//                  value, so a block subtracts its bias, 12 * (sum of its activations). avx2 holds
//                  the last digit, within +-4, times 16: its sums then count 4096, a 16-bit factor.
//   scalar         two 16-bit digits, base 1024, in column order; no bias.
//
// A group is what one step handles: four vectors of codes, transposed by the additions that reduce
// them, so that the scales of all its blocks are applied at once. With one row of activations, the
// codes stream past digits that stay in L1. Several rows share the looked-up weights of a group,
// and their digits stay in L1 while they pass over a panel of weight rows.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/matrix.h"

namespace sluice::cpu::SLUICE_ISA {

#if defined(__AVX512VNNI__)
constexpr int32_t blocks_per_vector = 4;
#elif defined(__AVX2__)
constexpr int32_t blocks_per_vector = 2;
#else
constexpr int32_t blocks_per_vector = 1;
#endif
constexpr int32_t vectors_per_group = blocks_per_vector == 1 ? 1 : 4;
constexpr int32_t group_blocks = blocks_per_vector * vectors_per_group;

// Rows of activations as digits. Blocks past a row's end, up to a whole group, are all zero.
constexpr int64_t digit_stride = blocks_per_vector == 1 ? 128 : 96;  // bytes per block
struct DigitRows {
    int8_t*
        // [rows][blocks][digit_stride], per vector of codes: d0 even, d0 odd, d1 even...
        digits;
    int32_t* bias;   // [rows][blocks]
    float* scale;    // [rows][blocks], 2^(byte - 137) or NaN
    int64_t blocks;  // a multiple of 16

    DigitRows from(int64_t row) const {
        return {digits + row * blocks * digit_stride, bias + row * blocks, scale + row * blocks,
                blocks};
    }
};

// 2^(byte - 127 - 10), NaN for 255.
SLUICE_LANE float activation_scale(uint8_t byte) {
    if (byte == 255) return float_of(0x7fc00000u);
    return byte > 10 ? float_of(uint32_t(byte - 10) << 23) : float_of(1u << (byte + 12));
}

// Cuts block b, 32 E4M3 codes, of the first of `rows` into digits.
SLUICE_LANE void cut_block(const DigitRows& rows, int64_t b, const uint8_t* codes,
                           uint8_t scale_byte) {
    int32_t sum = 0;
#if defined(__AVX2__)
    constexpr int32_t stride = blocks_per_vector * 16;
    constexpr int32_t last_factor = blocks_per_vector == 2 ? 16 : 1;
    int8_t* block = rows.digits + b / blocks_per_vector * (6 * stride) + b % blocks_per_vector * 16;
    for (int32_t odd = 0; odd < 2; ++odd) {
        int8_t* to = block + odd * stride;
        for (int32_t i = 0; i < 16; ++i) {
            int32_t value = e4m3_to_int(codes[2 * i + odd]);
            int32_t rest = (value + 128) >> 8;
            int32_t last = (rest + 128) >> 8;
            to[i] = int8_t(value - rest * 256);
            to[2 * stride + i] = int8_t(rest - last * 256);
            to[4 * stride + i] = int8_t(last * last_factor);
            sum += value;
        }
    }
#else
    int16_t* low = reinterpret_cast<int16_t*>(rows.digits) + b * 64;
    for (int32_t i = 0; i < 32; ++i) {
        int32_t value = e4m3_to_int(codes[i]);
        int32_t high = (value + 512) >> 10;
        low[i] = int16_t(value - high * 1024);
        low[32 + i] = int16_t(high);
    }
#endif
    rows.bias[b] = 12 * sum;
    rows.scale[b] = activation_scale(scale_byte);
}

// Sets blocks first .. end - 1 to zero, which adds nothing; first is a multiple of 16.
SLUICE_LANE void clear_blocks(const DigitRows& row, int64_t first, int64_t end) {
    memset(row.digits + first * digit_stride, 0, (end - first) * digit_stride);
    memset(row.bias + first, 0, (end - first) * sizeof(int32_t));
    memset(row.scale + first, 0, (end - first) * sizeof(float));
}

// GroupWeights: a group of a row of w, looked up. load_group() takes `left` blocks; the others
// become weights without effect. add_group() adds the group's terms for one row of x.

#if defined(__AVX512VNNI__)

using Lanes = __m256;
struct GroupWeights {
    __m512i low[4], high[4];
    __m512 scale;
};

// Scales of `left` blocks, at most 16; the others become 0.
SLUICE_LANE __m512 weight_scales(const uint8_t* scales, int64_t left) {
    __m128i e = left >= 16 ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales))
                           : _mm_maskz_loadu_epi8(__mmask16((1u << left) - 1), scales);
    // Bytes 0 and 255: 2^-127 and NaN both have the mantissa's top bit set.
    __mmask16 special =
        _mm_cmpge_epu8_mask(_mm_sub_epi8(e, _mm_set1_epi8(1)), _mm_set1_epi8(char(254)));
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(e), 23);
    bits = _mm512_mask_or_epi32(bits, special, bits, _mm512_set1_epi32(0x00400000));
    return _mm512_castsi512_ps(bits);
}

SLUICE_LANE GroupWeights load_group(const uint8_t* codes, const uint8_t* scales, int64_t left) {
    __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    __m512i mask = _mm512_set1_epi8(15);
    GroupWeights w;
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
        int64_t blocks = left - 4 * v;
        __m512i c;
        if (blocks >= 4)
            c = _mm512_loadu_si512(codes + 64 * v);
        else
            c = _mm512_maskz_loadu_epi8(blocks > 0 ? (__mmask64(1) << (16 * blocks)) - 1 : 0,
                                        codes + 64 * v);
        w.low[v] = _mm512_shuffle_epi8(table, _mm512_and_si512(c, mask));
        w.high[v] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(c, 4), mask));
    }
    w.scale = weight_scales(scales, left);
    return w;
}

SLUICE_LANE __m512i multiply(__m512i low, __m512i high, const int8_t* digits) {
    auto digit = [=](int i) __attribute__((always_inline)) {
        return _mm512_load_si512(digits + 64 * i);
    };
    __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, digit(4));
    sum = _mm512_slli_epi32(_mm512_dpbusd_epi32(sum, high, digit(5)), 8);
    sum = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, low, digit(2)), high, digit(3));
    sum = _mm512_slli_epi32(sum, 8);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, low, digit(0)), high, digit(1));
}

SLUICE_LANE __m512i add_pairs(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

SLUICE_LANE void add_group(Lanes& lanes, const GroupWeights& w, const DigitRows& x, int64_t b) {
    __m512i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        v[i] = multiply(w.low[i], w.high[i], x.digits + (b + 4 * i) * digit_stride);
    __m512i even = add_pairs(v[0], v[1]), odd = add_pairs(v[2], v[3]);
    __m512i sums =
        _mm512_add_epi32(_mm512_unpacklo_epi64(even, odd), _mm512_unpackhi_epi64(even, odd));
    sums = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sums);
    __m512i exact = _mm512_sub_epi32(sums, _mm512_load_si512(x.bias + b));
    __m512 term = _mm512_mul_ps(_mm512_cvtepi32_ps(exact), _mm512_load_ps(x.scale + b));
    term = _mm512_mul_ps(term, w.scale);
    lanes = _mm256_add_ps(lanes, _mm512_castps512_ps256(term));
    lanes = _mm256_add_ps(lanes, _mm512_extractf32x8_ps(term, 1));
}

#elif defined(__AVX2__)

using Lanes = __m256;
struct GroupWeights {
    __m256i low[4], high[4];
    __m256 scale;
};

SLUICE_LANE GroupWeights load_group(const uint8_t* codes, const uint8_t* scales, int64_t left) {
    __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    __m256i mask = _mm256_set1_epi8(15);
    uint8_t last_codes[128] = {}, last_scales[8] = {};
    if (left < 8) {
        memcpy(last_codes, codes, left * 16);
        memcpy(last_scales, scales, left);
        codes = last_codes;
        scales = last_scales;
    }
    GroupWeights w;
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
        __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes) + v);
        w.low[v] = _mm256_shuffle_epi8(table, _mm256_and_si256(c, mask));
        w.high[v] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(c, 4), mask));
    }
    __m128i e = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales));
    // Bytes 0 and 255: 2^-127 and NaN both have the mantissa's top bit set.
    __m128i less = _mm_sub_epi8(e, _mm_set1_epi8(1));
    __m128i special = _mm_cmpeq_epi8(_mm_max_epu8(less, _mm_set1_epi8(char(254))), less);
    __m256i top = _mm256_and_si256(_mm256_cvtepi8_epi32(special), _mm256_set1_epi32(0x00400000));
    w.scale =
        _mm256_castsi256_ps(_mm256_or_si256(_mm256_slli_epi32(_mm256_cvtepu8_epi32(e), 23), top));
    return w;
}

// Sums of two codes times two digits: 24 * 128 * 4 fits in 16 bits.
SLUICE_LANE __m256i multiply_digit(__m256i low, __m256i high, const int8_t* digits) {
    return _mm256_add_epi16(
        _mm256_maddubs_epi16(low, _mm256_load_si256(reinterpret_cast<const __m256i*>(digits))),
        _mm256_maddubs_epi16(high,
                             _mm256_load_si256(reinterpret_cast<const __m256i*>(digits) + 1)));
}
SLUICE_LANE __m256i multiply(__m256i low, __m256i high, const int8_t* digits) {
    __m256i d0 = _mm256_madd_epi16(multiply_digit(low, high, digits), _mm256_set1_epi16(1));
    __m256i d1 = _mm256_madd_epi16(multiply_digit(low, high, digits + 64), _mm256_set1_epi16(256));
    __m256i d2 =
        _mm256_madd_epi16(multiply_digit(low, high, digits + 128), _mm256_set1_epi16(4096));
    return _mm256_add_epi32(_mm256_add_epi32(d0, d1), d2);
}

SLUICE_LANE __m256i add_pairs(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

SLUICE_LANE void add_group(Lanes& lanes, const GroupWeights& w, const DigitRows& x, int64_t b) {
    __m256i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        v[i] = multiply(w.low[i], w.high[i], x.digits + (b + 2 * i) * digit_stride);
    __m256i even = add_pairs(v[0], v[1]), odd = add_pairs(v[2], v[3]);
    __m256i sums =
        _mm256_add_epi32(_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd));
    sums = _mm256_permutevar8x32_epi32(sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m256i exact =
        _mm256_sub_epi32(sums, _mm256_load_si256(reinterpret_cast<const __m256i*>(x.bias + b)));
    __m256 term = _mm256_mul_ps(_mm256_cvtepi32_ps(exact), _mm256_load_ps(x.scale + b));
    lanes = _mm256_add_ps(lanes, _mm256_mul_ps(term, w.scale));
}

#else

struct Lanes {
    float lane[8];
};
struct GroupWeights {
    int16_t twice[32];
    float scale;
};

// Twice the values of a byte's two nibbles.
struct NibbleTable {
    int16_t twice[256][2];
};
constexpr NibbleTable make_nibble_table() {
    constexpr int16_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    NibbleTable table = {};
    for (int byte = 0; byte < 256; ++byte) {
        table.twice[byte][0] = twice[byte & 15];
        table.twice[byte][1] = twice[byte >> 4];
    }
    return table;
}
constexpr NibbleTable nibble_table = make_nibble_table();

SLUICE_LANE GroupWeights load_group(const uint8_t* codes, const uint8_t* scales, int64_t) {
    GroupWeights w;
    for (int i = 0; i < 16; ++i) memcpy(w.twice + 2 * i, nibble_table.twice[codes[i]], 4);
    w.scale = e8m0_to_float(scales[0]);
    return w;
}

SLUICE_LANE void add_group(Lanes& lanes, const GroupWeights& w, const DigitRows& x, int64_t b) {
    const int16_t* digits = reinterpret_cast<const int16_t*>(x.digits) + b * 64;
    int32_t low = 0, high = 0;
    for (int i = 0; i < 32; ++i) low += w.twice[i] * digits[i];
    for (int i = 0; i < 32; ++i) high += w.twice[i] * digits[32 + i];
    float& lane = lanes.lane[b % 8];
    lane = lane + float(low + high * 1024) * x.scale[b] * w.scale;
}

#endif

SLUICE_LANE float add_lanes(const Lanes& lanes) {
    float v[8];
    memcpy(v, &lanes, sizeof v);
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

SLUICE_LANE void prefetch_group(const uint8_t* codes) {
    constexpr int64_t ahead = 2048;  // bytes; hides the step to the next page on AVX2 machines
    for (int64_t i = 0; i < group_blocks * 16; i += 64)
        __builtin_prefetch(
            reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(codes) + ahead + i));
}

// Row `row` of w times one row of activations.
static float fp4_dot(const Fp4Matrix& w, int64_t row, const DigitRows& x) {
    int64_t blocks = w.cols / 32, b = 0;
    const uint8_t* codes = w.codes + row * blocks * 16;
    const uint8_t* scales = w.scales + row * blocks;
    Lanes lanes = {};
    for (; b + group_blocks <= blocks; b += group_blocks) {
        prefetch_group(codes + b * 16);
        add_group(lanes, load_group(codes + b * 16, scales + b, group_blocks), x, b);
    }
    if (b < blocks) add_group(lanes, load_group(codes + b * 16, scales + b, blocks - b), x, b);
    return add_lanes(lanes);
}

constexpr int32_t fp4_panel_rows = 8, fp4_panel_tokens = 16;

// y[r][c] = row (row + r) of w times row c of x; at most a panel's rows and tokens.
static void fp4_panel(float (&y)[fp4_panel_rows][fp4_panel_tokens], const Fp4Matrix& w, int64_t row,
                      int32_t rows, const DigitRows& x, int32_t tokens) {
    int64_t blocks = w.cols / 32;
    Lanes lanes[fp4_panel_rows][fp4_panel_tokens] = {};
    for (int64_t b = 0; b < blocks; b += group_blocks) {
        int64_t left = blocks - b < group_blocks ? blocks - b : group_blocks;
        for (int32_t r = 0; r < rows; ++r) {
            int64_t at = (row + r) * blocks + b;
            GroupWeights group = load_group(w.codes + at * 16, w.scales + at, left);
#pragma GCC unroll 2
            for (int32_t c = 0; c < tokens; ++c) add_group(lanes[r][c], group, x.from(c), b);
        }
    }
    for (int32_t r = 0; r < rows; ++r)
        for (int32_t c = 0; c < tokens; ++c) y[r][c] = add_lanes(lanes[r][c]);
}

}  // namespace sluice::cpu::SLUICE_ISA
