// Linear with an FP4 weight, in exact block integers (RoutedExpert in kernels/ops.h).
//
// An activation is an integer of 18 bits and a sign. It is cut once into digits small enough for
// the integer multiply-add of the instruction set; the weights go in as they lie, looked up from
// their nibbles.
//
//   avx2, avx512   three signed base-256 digits. Even and odd columns of a block lie apart, as the
//                  low and high nibbles do. Weights are made unsigned by adding 12 to twice their
//                  value, so a block subtracts its bias, 12 * (sum of its activations). avx2 holds
//                  the last digit, within +-4, times 16: its sums then weigh 4096, a 16-bit factor.
//   scalar         two 16-bit digits, base 1024, in column order; no bias.
//
// A group is what one pass handles: four vectors of codes, transposed by the additions that reduce
// them, so that scales are applied to all its blocks at once.
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

// Rows of activations in digits. Blocks past a row's end, up to a whole group, are all zero.
constexpr int64_t digit_stride = blocks_per_vector == 1 ? 128 : 96;  // bytes of a block
struct DigitRows {
    int8_t*
        digits;     // [rows][blocks][digit_stride], by vector of codes: d0 even, d0 odd, d1 even...
    int32_t* bias;  // [rows][blocks]
    float* scale;   // [rows][blocks], 2^(byte - 137) or NaN
    int64_t blocks;  // a multiple of 16

    DigitRows from(int64_t row) const {
        return {digits + row * blocks * digit_stride, bias + row * blocks, scale + row * blocks,
                blocks};
    }
};

// 2^(byte - 127 - 10), NaN for 255.
SLUICE_LANE float activation_scale(uint8_t byte) {
    if (byte == 255) return float_of(0x7fc00000u);
    return byte > 10 ? float_of((uint32_t)(byte - 10) << 23) : float_of(1u << (byte + 12));
}

// Cuts block b, 32 E4M3 codes, of the first of `rows`.
SLUICE_LANE void cut_block(const DigitRows& rows, int64_t b, const uint8_t* codes,
                           uint8_t scale_byte) {
    int32_t sum = 0;
#if defined(__AVX2__)
    constexpr int32_t stride = blocks_per_vector * 16;
    constexpr int32_t last_factor = blocks_per_vector == 2 ? 16 : 1;
    int8_t* block = rows.digits + b / blocks_per_vector * (6 * stride) + b % blocks_per_vector * 16;
    for (int32_t odd = 0; odd < 2; odd++) {
        int8_t* to = block + odd * stride;
        for (int32_t i = 0; i < 16; i++) {
            int32_t value = e4m3_to_int(codes[2 * i + odd]);
            int32_t rest = (value + 128) >> 8;
            int32_t last = (rest + 128) >> 8;
            to[i] = (int8_t)(value - rest * 256);
            to[2 * stride + i] = (int8_t)(rest - last * 256);
            to[4 * stride + i] = (int8_t)(last * last_factor);
            sum += value;
        }
    }
#else
    int16_t* low = (int16_t*)rows.digits + b * 64;
    for (int32_t i = 0; i < 32; i++) {
        int32_t value = e4m3_to_int(codes[i]);
        int32_t high = (value + 512) >> 10;
        low[i] = (int16_t)(value - high * 1024);
        low[32 + i] = (int16_t)high;
    }
#endif
    rows.bias[b] = 12 * sum;
    rows.scale[b] = activation_scale(scale_byte);
}

// Makes blocks first .. end - 1 zero, which adds nothing; first is a multiple of 16.
SLUICE_LANE void clear_blocks(const DigitRows& row, int64_t first, int64_t end) {
    memset(row.digits + first * digit_stride, 0, (end - first) * digit_stride);
    memset(row.bias + first, 0, (end - first) * sizeof(int32_t));
    memset(row.scale + first, 0, (end - first) * sizeof(float));
}

#if defined(__AVX512VNNI__)

using Ints = __m512i;
using Floats = __m512;

struct Nibbles {
    __m512i low, high;
};
SLUICE_LANE Nibbles load_weights(const uint8_t* codes, int64_t blocks) {
    __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    __m512i mask = _mm512_set1_epi8(15);
    __m512i c = blocks >= 4 ? _mm512_loadu_si512(codes)
                            : _mm512_maskz_loadu_epi8(((__mmask64)1 << (16 * blocks)) - 1, codes);
    return {_mm512_shuffle_epi8(table, _mm512_and_si512(c, mask)),
            _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(c, 4), mask))};
}

struct Digits {
    __m512i d[6];
};
SLUICE_LANE Digits load_digits(const int8_t* from) {
    Digits x;
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) x.d[i] = _mm512_load_si512(from + 64 * i);
    return x;
}

SLUICE_LANE Ints multiply(const Nibbles& w, const Digits& x) {
    __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w.low, x.d[4]);
    sum = _mm512_slli_epi32(_mm512_dpbusd_epi32(sum, w.high, x.d[5]), 8);
    sum = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, w.low, x.d[2]), w.high, x.d[3]);
    sum = _mm512_slli_epi32(sum, 8);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, w.low, x.d[0]), w.high, x.d[1]);
}

SLUICE_LANE Ints add_pairs(Ints a, Ints b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
SLUICE_LANE Ints block_sums(const Ints (&v)[4]) {
    Ints a = add_pairs(v[0], v[1]), b = add_pairs(v[2], v[3]);
    a = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), a);
}

SLUICE_LANE Floats load_scales(const uint8_t* bytes, int64_t blocks) {
    __m128i e = blocks >= 16 ? _mm_loadu_si128((const __m128i*)bytes)
                             : _mm_maskz_loadu_epi8((__mmask16)((1u << blocks) - 1), bytes);
    // bytes 0 and 255: 2^-127 and NaN both have the mantissa's top bit
    __mmask16 special =
        _mm_cmpge_epu8_mask(_mm_sub_epi8(e, _mm_set1_epi8(1)), _mm_set1_epi8((char)254));
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(e), 23);
    bits = _mm512_mask_or_epi32(bits, special, bits, _mm512_set1_epi32(0x00400000));
    return _mm512_castsi512_ps(bits);
}

SLUICE_LANE __m256 add_terms(__m256 lanes, Ints sums, const int32_t* bias, const float* scale,
                             Floats w_scale) {
    Ints exact = _mm512_sub_epi32(sums, _mm512_load_si512(bias));
    __m512 term = _mm512_mul_ps(_mm512_cvtepi32_ps(exact), _mm512_load_ps(scale));
    term = _mm512_mul_ps(term, w_scale);
    lanes = _mm256_add_ps(lanes, _mm512_castps512_ps256(term));
    return _mm256_add_ps(lanes, _mm512_extractf32x8_ps(term, 1));
}

#elif defined(__AVX2__)

using Ints = __m256i;
using Floats = __m256;

struct Nibbles {
    __m256i low, high;
};
SLUICE_LANE Nibbles load_weights(const uint8_t* codes, int64_t blocks) {
    __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    __m256i mask = _mm256_set1_epi8(15);
    __m256i c = blocks >= 2 ? _mm256_loadu_si256((const __m256i*)codes)
                            : _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i*)codes));
    return {_mm256_shuffle_epi8(table, _mm256_and_si256(c, mask)),
            _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(c, 4), mask))};
}

struct Digits {
    __m256i d[6];
};
SLUICE_LANE Digits load_digits(const int8_t* from) {
    Digits x;
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) x.d[i] = _mm256_load_si256((const __m256i*)from + i);
    return x;
}

// 24 * 128 * 4 fits 16 bits.
SLUICE_LANE __m256i multiply_digit(const Nibbles& w, __m256i even, __m256i odd) {
    return _mm256_add_epi16(_mm256_maddubs_epi16(w.low, even), _mm256_maddubs_epi16(w.high, odd));
}
SLUICE_LANE Ints multiply(const Nibbles& w, const Digits& x) {
    __m256i d0 = _mm256_madd_epi16(multiply_digit(w, x.d[0], x.d[1]), _mm256_set1_epi16(1));
    __m256i d1 = _mm256_madd_epi16(multiply_digit(w, x.d[2], x.d[3]), _mm256_set1_epi16(256));
    __m256i d2 = _mm256_madd_epi16(multiply_digit(w, x.d[4], x.d[5]), _mm256_set1_epi16(4096));
    return _mm256_add_epi32(_mm256_add_epi32(d0, d1), d2);
}

SLUICE_LANE Ints add_pairs(Ints a, Ints b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
SLUICE_LANE Ints block_sums(const Ints (&v)[4]) {
    Ints a = add_pairs(v[0], v[1]), b = add_pairs(v[2], v[3]);
    a = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    return _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

SLUICE_LANE Floats load_scales(const uint8_t* bytes, int64_t blocks) {
    uint8_t some[8] = {};
    if (blocks < 8) {
        memcpy(some, bytes, blocks);
        bytes = some;
    }
    __m128i e = _mm_loadl_epi64((const __m128i*)bytes);
    // bytes 0 and 255: 2^-127 and NaN both have the mantissa's top bit
    __m128i less = _mm_sub_epi8(e, _mm_set1_epi8(1));
    __m128i special = _mm_cmpeq_epi8(_mm_max_epu8(less, _mm_set1_epi8((char)254)), less);
    __m256i top = _mm256_and_si256(_mm256_cvtepi8_epi32(special), _mm256_set1_epi32(0x00400000));
    return _mm256_castsi256_ps(
        _mm256_or_si256(_mm256_slli_epi32(_mm256_cvtepu8_epi32(e), 23), top));
}

SLUICE_LANE __m256 add_terms(__m256 lanes, Ints sums, const int32_t* bias, const float* scale,
                             Floats w_scale) {
    Ints exact = _mm256_sub_epi32(sums, _mm256_load_si256((const __m256i*)bias));
    Floats term = _mm256_mul_ps(_mm256_cvtepi32_ps(exact), _mm256_load_ps(scale));
    return _mm256_add_ps(lanes, _mm256_mul_ps(term, w_scale));
}

#endif

#if defined(__AVX2__)

SLUICE_LANE float add_lanes(__m256 v) {
    __m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps(a, a, 1)));
}

// Adds the group at block b of one row of w times C rows of x. Full: all its blocks are there.
template <int C, bool Full>
SLUICE_LANE void add_group(__m256 (&lanes)[C], const uint8_t* codes, const uint8_t* scales,
                           const DigitRows& x, int64_t b, int64_t left) {
    Ints sums[C][4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        int64_t first = v * blocks_per_vector;
        if (!Full && first >= left) {
            for (int c = 0; c < C; c++) sums[c][v] = Ints{};
            continue;
        }
        Nibbles w = load_weights(codes + (b + first) * 16, Full ? group_blocks : left - first);
        const int8_t* digits = x.digits + (b + first) * digit_stride;
#pragma GCC unroll 8
        for (int c = 0; c < C; c++)
            sums[c][v] = multiply(w, load_digits(digits + c * x.blocks * digit_stride));
    }
    Floats scale = load_scales(scales + b, Full ? group_blocks : left);
#pragma GCC unroll 8
    for (int c = 0; c < C; c++)
        lanes[c] = add_terms(lanes[c], block_sums(sums[c]), x.bias + c * x.blocks + b,
                             x.scale + c * x.blocks + b, scale);
}

// y[c] = row `row` of w times row c of x.
template <int C>
static void fp4_dot(float (&y)[C], const Fp4Matrix& w, int64_t row, const DigitRows& x) {
    int64_t blocks = w.cols / 32;
    const uint8_t* codes = w.codes + row * blocks * 16;
    const uint8_t* scales = w.scales + row * blocks;
    __m256 lanes[C];
    for (int c = 0; c < C; c++) lanes[c] = __m256{};
    int64_t b = 0;
    for (; b + group_blocks <= blocks; b += group_blocks) {
#ifdef PF
        for (int i = 0; i < group_blocks * 16; i += 64)
            _mm_prefetch((const char*)codes + b * 16 + PF + i, _MM_HINT_T0);
#endif
        add_group<C, true>(lanes, codes, scales, x, b, group_blocks);
    }
    if (b < blocks) add_group<C, false>(lanes, codes, scales, x, b, blocks - b);
    for (int c = 0; c < C; c++) y[c] = add_lanes(lanes[c]);
}

#else

// Twice the values of the two nibbles of a byte.
struct NibbleTable {
    int16_t twice[256][2];
};
constexpr NibbleTable make_nibble_table() {
    constexpr int16_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    NibbleTable table = {};
    for (int byte = 0; byte < 256; byte++) {
        table.twice[byte][0] = twice[byte & 15];
        table.twice[byte][1] = twice[byte >> 4];
    }
    return table;
}
constexpr NibbleTable nibble_table = make_nibble_table();

template <int C>
static void fp4_dot(float (&y)[C], const Fp4Matrix& w, int64_t row, const DigitRows& x) {
    int64_t blocks = w.cols / 32;
    const uint8_t* codes = w.codes + row * blocks * 16;
    const uint8_t* scales = w.scales + row * blocks;
    float lanes[C][8] = {};
    for (int64_t b = 0; b < blocks; b++) {
        int16_t weights[32];
        for (int i = 0; i < 16; i++)
            memcpy(weights + 2 * i, nibble_table.twice[codes[16 * b + i]], 4);
        float scale = e8m0_to_float(scales[b]);
        for (int c = 0; c < C; c++) {
            const int16_t* digits = (const int16_t*)x.digits + (c * x.blocks + b) * 64;
            int32_t low = 0, high = 0;
            for (int i = 0; i < 32; i++) low += weights[i] * digits[i];
            for (int i = 0; i < 32; i++) high += weights[i] * digits[32 + i];
            float exact = (float)(low + high * 1024);
            float& lane = lanes[c][b % 8];
            lane = lane + exact * x.scale[c * x.blocks + b] * scale;
        }
    }
    for (int c = 0; c < C; c++) {
        float* v = lanes[c];
        y[c] = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
    }
}

#endif

}  // namespace sluice::cpu::SLUICE_ISA
