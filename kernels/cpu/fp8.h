// Products of FP8 weights with fp32 activations, in the order of LinearFp8 (kernels/ops.h).
//
// An E4M3 code whose bits are placed in a half float is the value times 2^-8, and one instruction
// converts half floats. There are two kernels. Few tokens: weights are decoded in registers. Many
// tokens: weights are decoded once into a panel that stays in L1.
//
// Both fuse multiplications with additions and move powers of two about. That changes no bit as
// long as no product is rounded or overflows, which holds for activations that are 0 or 2^-80 ..
// 2^80 and weight scales 2^-50 .. 2^30: the smallest unit of a scaled product is 2^-87 (bf16 at
// 2^-80) * 2^-9 * 2^-50 = 2^-146, a multiple of the smallest fp32, and the largest sum is below
// 2^121. Anything outside, and rows with NaN codes, go through fp8_output_plain() instead.
#pragma once

#include "kernels/cpu/simd.h"

namespace sluice::cpu::SLUICE_ISA {

constexpr int32_t panel_rows = 8;     // rows that one item computes; divides 32, the rows of a tile
constexpr int32_t panel_cols = 512;   // columns decoded at a time
constexpr int32_t few_tokens = 4;     // up to this many, weights are decoded in registers
constexpr int32_t panel_tokens = 32;  // tokens whose sums are kept between panels
constexpr int32_t tile_rows = 4;      // sums held in registers: tile_rows x tile_tokens
constexpr int32_t rows_at_once = register_lanes == 16 ? 4 : 2;
constexpr int32_t tile_tokens = register_lanes == 16 ? 4 : 2;

// Rows of fp32 activations, and whether each row is in the range above.
struct Fp8Inputs {
    const float* x;       // [n][stride]
    const uint8_t* safe;  // [n][safe_stride]
    int64_t stride, safe_stride;
};

struct CodeLanes {
    f32x16 low, high;  // 32 values times 2^-8
};

SLUICE_LANE CodeLanes decode(const uint8_t* codes) {
    CodeLanes v;
#if defined(__AVX512F__)
    __m512i c = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
    c = _mm512_and_si512(_mm512_slli_epi16(c, 7), _mm512_set1_epi16(short(0xbfff)));
    v.low.part[0] = vf(_mm512_cvtph_ps(_mm512_castsi512_si256(c)));
    v.high.part[0] = vf(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(c, 1)));
#elif defined(__F16C__)
    for (int half = 0; half < 2; ++half) {
        __m256i c = _mm256_cvtepi8_epi16(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + 16 * half)));
        c = _mm256_and_si256(_mm256_slli_epi16(c, 7), _mm256_set1_epi16(short(0xbfff)));
        f32x16& to = half ? v.high : v.low;
        to.part[0] = vf(_mm256_cvtph_ps(_mm256_castsi256_si128(c)));
        to.part[1] = vf(_mm256_cvtph_ps(_mm256_extracti128_si256(c, 1)));
    }
#else
    for (int half = 0; half < 2; ++half) {
        i32x16 c = load_bytes(codes + 16 * half);
        i32x16 magnitude = c & splat_int(0x7f);
        f32x16 tiny = convert(magnitude) * splat(0x1p-17f);
        f32x16 normal = from_bits((magnitude << 20) + splat_int(112 << 23));
        f32x16 value = select(splat_int(8) > magnitude, tiny, normal);
        (half ? v.high : v.low) = from_bits(bits(value) | ((c & splat_int(0x80)) << 24));
    }
#endif
    return v;
}

// Remembers whether it has seen a NaN code.
typedef uint8_t code_bytes __attribute__((vector_size(32)));
struct NanCodes {
    code_bytes max = {};

    SLUICE_LANE_MEMBER void see(const uint8_t* codes) {
        code_bytes c;
        memcpy(&c, codes, 32);
        c &= 0x7f;
        max = max > c ? max : c;
    }
    SLUICE_LANE_MEMBER bool any() const {
        for (int i = 0; i < 32; ++i)
            if (max[i] == 0x7f) return true;
        return false;
    }
};

static bool scales_safe(const uint8_t* scales, int32_t count) {
    bool safe = true;
    for (int32_t b = 0; b < count; ++b) safe &= scales[b] >= 127 - 50 && scales[b] <= 127 + 30;
    return safe;
}

// True if all `count` values, a multiple of 32, are 0 or 2^-80 <= |x| < 2^81.
static bool values_safe(const float* x, int32_t count) {
    i32x16 bad = splat_int(0);
    for (int32_t k = 0; k < count; k += 16) {
        i32x16 magnitude = bits(load(x + k)) & splat_int(0x7fffffff);
        i32x16 low = splat_int((127 - 80) << 23) > magnitude;
        bad = bad | (magnitude > splat_int((127 + 81) << 23)) | (low & (magnitude > splat_int(0)));
    }
    int32_t lanes[16], any = 0;
    memcpy(lanes, &bad, sizeof lanes);
    for (int i = 0; i < 16; ++i) any |= lanes[i];
    return any == 0;
}

// The contract, literally, for one output.
static float fp8_output_plain(const Fp8Matrix& w, int32_t row, const float* x) {
    const uint8_t* codes = w.codes + size_t(row) * w.cols;
    const uint8_t* scales = w.scales + size_t(row / 32) * (w.cols / 32);
    f32x16 sum = zero();
    for (int32_t b = 0; b < w.cols / 32; ++b) {
        float v[32];
        for (int k = 0; k < 32; ++k) v[k] = e4m3_to_float(codes[32 * b + k]);
        f32x16 t = load(v) * load(x + 32 * b) + load(v + 16) * load(x + 32 * b + 16);
        sum = sum + t * splat(e8m0_to_float(scales[b]));
    }
    return tree_sum(sum);
}

// ---- few tokens ---------------------------------------------------------------------------------
//
// `rows` outputs from row `row` on, which share their scales, for each of `tokens` activation
// vectors: y[t * panel_rows + r]. Returns whether a NaN code was among the weights.
template <int rows, int tokens>
static bool fp8_rows(const Fp8Matrix& w, int32_t row, const float* x, int64_t stride, float* y) {
    const uint8_t* codes = w.codes + size_t(row) * w.cols;
    const uint8_t* scales = w.scales + size_t(row / 32) * (w.cols / 32);
    f32x16 sum[rows][tokens];
    SLUICE_UNROLL for (int r = 0; r < rows; ++r) SLUICE_UNROLL for (int t = 0; t < tokens; ++t)
        sum[r][t] = zero();
    NanCodes check;
    for (int32_t b = 0; b < w.cols / 32; ++b) {
        f32x16 scale = splat(float_of(uint32_t(scales[b] + 8) << 23));
        SLUICE_UNROLL for (int r = 0; r < rows; ++r) {
            const uint8_t* c = codes + size_t(r) * w.cols + 32 * b;
            __builtin_prefetch(c + size_t(rows) * w.cols);  // the same columns of the next rows
            check.see(c);
            CodeLanes v = decode(c);
            SLUICE_UNROLL for (int t = 0; t < tokens; ++t) {
                const float* at = x + t * stride + 32 * b;
                f32x16 sum_of_two = mul_add_exact(v.high, load(at + 16), v.low * load(at));
                sum[r][t] = mul_add_exact(sum_of_two, scale, sum[r][t]);
            }
        }
    }
    SLUICE_UNROLL for (int r = 0; r < rows; ++r) SLUICE_UNROLL for (int t = 0; t < tokens; ++t)
        y[t * panel_rows + r] = tree_sum(sum[r][t]);
    return check.any();
}

// All rows of an item, with as many sums at once as there are registers for.
template <int tokens>
static bool fp8_few(const Fp8Matrix& w, int32_t row, int32_t rows, const float* x, int64_t stride,
                    float* y) {
    constexpr int sums = register_lanes == 16 ? 8 : tokens == 1 ? 2 : 3;
    constexpr int at_once = tokens == 1 ? rows_at_once : sums / tokens > 1 ? sums / tokens : 1;
    bool nan = false;
    int32_t r = 0;
    for (; r + at_once <= rows; r += at_once)
        nan |= fp8_rows<at_once, tokens>(w, row + r, x, stride, y + r);
    for (; r < rows; ++r) nan |= fp8_rows<1, tokens>(w, row + r, x, stride, y + r);
    return nan;
}

// ---- many tokens --------------------------------------------------------------------------------

// Decodes and scales `rows` <= panel_rows rows x `blocks` blocks: panel[block][panel_rows][32].
static void decode_panel(const Fp8Matrix& w, int32_t row, int32_t rows, int32_t block,
                         int32_t blocks, float* panel, bool* nan) {
    const uint8_t* scales = w.scales + size_t(row / 32) * (w.cols / 32) + block;
    NanCodes check;
    for (int32_t r = 0; r < panel_rows; ++r) {
        // A short group repeats its last row; those sums are not used.
        int32_t from = row + (r < rows ? r : rows - 1);
        const uint8_t* codes = w.codes + size_t(from) * w.cols + 32 * block;
        for (int32_t b = 0; b < blocks; ++b) {
            __builtin_prefetch(codes + size_t(panel_rows) * w.cols + 32 * b);
            check.see(codes + 32 * b);
            CodeLanes v = decode(codes + 32 * b);
            f32x16 scale = splat(float_of(uint32_t(scales[b] + 8) << 23));
            float* to = panel + (size_t(b) * panel_rows + r) * 32;
            store(to, v.low * scale);
            store(to + 16, v.high * scale);
        }
    }
    *nan |= check.any();
}

// sums[row][token] += panel x tokens, for one register's share of the sixteen lanes.
template <int tokens>
static void tile_part(const float* panel, int32_t blocks, const float* x, int64_t stride,
                      float* sums) {
    vf sum[tile_rows][tokens];
    SLUICE_UNROLL for (int r = 0; r < tile_rows; ++r) SLUICE_UNROLL for (int t = 0; t < tokens; ++t)
        memcpy(&sum[r][t], sums + (r * panel_tokens + t) * 16, sizeof(vf));
    for (int32_t b = 0; b < blocks; ++b) {
        vf low[tokens], high[tokens];
        SLUICE_UNROLL for (int t = 0; t < tokens; ++t) {
            memcpy(&low[t], x + t * stride + 32 * b, sizeof(vf));
            memcpy(&high[t], x + t * stride + 32 * b + 16, sizeof(vf));
        }
        SLUICE_UNROLL for (int r = 0; r < tile_rows; ++r) {
            vf w_low, w_high;
            memcpy(&w_low, panel + (b * panel_rows + r) * 32, sizeof(vf));
            memcpy(&w_high, panel + (b * panel_rows + r) * 32 + 16, sizeof(vf));
            SLUICE_UNROLL for (int t = 0; t < tokens; ++t) sum[r][t] =
                sum[r][t] + mul_add_exact(w_high, high[t], w_low * low[t]);
        }
    }
    SLUICE_UNROLL for (int r = 0; r < tile_rows; ++r) SLUICE_UNROLL for (int t = 0; t < tokens; ++t)
        memcpy(sums + (r * panel_tokens + t) * 16, &sum[r][t], sizeof(vf));
}

template <int tokens>
static void tile(const float* panel, int32_t blocks, const float* x, int64_t stride, float* sums) {
    for (int32_t r = 0; r < panel_rows; r += tile_rows)
        for (int p = 0; p < registers; ++p)
            tile_part<tokens>(panel + r * 32 + p * register_lanes, blocks, x + p * register_lanes,
                              stride, sums + r * panel_tokens * 16 + p * register_lanes);
}

// Sums of up to panel_rows rows x panel_tokens tokens: sums[panel_rows][panel_tokens][16].
static void fp8_panel(const Fp8Matrix& w, int32_t row, int32_t rows, const float* x, int64_t stride,
                      int32_t tokens, float* sums, bool* nan) {
    alignas(64) float panel[panel_rows * panel_cols];
    memset(sums, 0, sizeof(float) * panel_rows * panel_tokens * 16);
    for (int32_t k = 0; k < w.cols; k += panel_cols) {
        int32_t blocks = (w.cols - k < panel_cols ? w.cols - k : panel_cols) / 32;
        decode_panel(w, row, rows, k / 32, blocks, panel, nan);
        int32_t t = 0;
        for (; t + tile_tokens <= tokens; t += tile_tokens)
            tile<tile_tokens>(panel, blocks, x + t * stride + k, stride, sums + t * 16);
        for (; t < tokens; ++t) tile<1>(panel, blocks, x + t * stride + k, stride, sums + t * 16);
    }
}

// y[i * y_stride + r] for rows [row, row + rows) within one tile, rows <= panel_rows, n tokens.
static void fp8_outputs(const Fp8Matrix& w, int32_t row, int32_t rows, const Fp8Inputs& in,
                        int32_t n, bf16* y, int64_t y_stride) {
    alignas(64) float sums[panel_rows * panel_tokens * 16];
    bool scales = scales_safe(w.scales + size_t(row / 32) * (w.cols / 32), w.cols / 32);
    for (int32_t i = 0; i < n; i += panel_tokens) {
        int32_t tokens = n - i < panel_tokens ? n - i : panel_tokens;
        const float* x = in.x + i * in.stride;
        float few[few_tokens * panel_rows];
        bool nan = false;
        switch (tokens) {
            case 1:
                nan = fp8_few<1>(w, row, rows, x, in.stride, few);
                break;
            case 2:
                nan = fp8_few<2>(w, row, rows, x, in.stride, few);
                break;
            case 3:
                nan = fp8_few<3>(w, row, rows, x, in.stride, few);
                break;
            case 4:
                nan = fp8_few<4>(w, row, rows, x, in.stride, few);
                break;
            default:
                fp8_panel(w, row, rows, x, in.stride, tokens, sums, &nan);
        }
        for (int32_t t = 0; t < tokens; ++t)
            for (int32_t r = 0; r < rows; ++r) {
                bool exact = scales && !nan && in.safe[(i + t) * in.safe_stride];
                float sum = !exact ? fp8_output_plain(w, row + r, x + t * in.stride)
                            : tokens <= few_tokens
                                ? few[t * panel_rows + r]
                                : tree_sum(load(sums + (r * panel_tokens + t) * 16));
                y[(i + t) * y_stride + r] = to_bf16(sum);
            }
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
