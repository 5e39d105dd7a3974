// Sixteen dots of 16 at once, for attention scores and index scores: four vectors times four. The
// reductions of all sixteen share their shuffles; each is still the tree of kernels/ops.h.
#pragma once

#include "kernels/cpu/simd.h"

namespace sluice::cpu::SLUICE_ISA {

// From each four lanes [a0 a1 a2 a3] and [b0 b1 b2 b3]: a0+a2, a1+a3, b0+b2, b1+b3.
SLUICE_LANE vf add_halves(vf a, vf b) {
#if defined(__AVX512F__)
    return vf(_mm512_shuffle_ps(__m512(a), __m512(b), 0x44)) +
           vf(_mm512_shuffle_ps(__m512(a), __m512(b), 0xee));
#elif defined(__AVX2__)
    return vf(_mm256_shuffle_ps(__m256(a), __m256(b), 0x44)) +
           vf(_mm256_shuffle_ps(__m256(a), __m256(b), 0xee));
#else
    return __builtin_shuffle(a, b, vi{0, 1, 4, 5}) + __builtin_shuffle(a, b, vi{2, 3, 6, 7});
#endif
}
// Likewise: a0+a1, a2+a3, b0+b1, b2+b3.
SLUICE_LANE vf add_neighbours(vf a, vf b) {
#if defined(__AVX512F__)
    return vf(_mm512_shuffle_ps(__m512(a), __m512(b), 0x88)) +
           vf(_mm512_shuffle_ps(__m512(a), __m512(b), 0xdd));
#elif defined(__AVX2__)
    return vf(_mm256_shuffle_ps(__m256(a), __m256(b), 0x88)) +
           vf(_mm256_shuffle_ps(__m256(a), __m256(b), 0xdd));
#else
    return __builtin_shuffle(a, b, vi{0, 2, 4, 6}) + __builtin_shuffle(a, b, vi{1, 3, 5, 7});
#endif
}

// The steps i + 8 and i + 4 for four vectors: four lanes of each remain, side by side.
SLUICE_LANE f32x16 fold_four(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
    f32x16 r;
#if defined(__AVX512F__)
    auto halves = [](vf x, vf y) __attribute__((always_inline)) {
        return vf(_mm512_shuffle_f32x4(__m512(x), __m512(y), 0x44)) +
               vf(_mm512_shuffle_f32x4(__m512(x), __m512(y), 0xee));
    };
    __m512 ab = __m512(halves(a.part[0], b.part[0])), cd = __m512(halves(c.part[0], d.part[0]));
    r.part[0] = vf(_mm512_shuffle_f32x4(ab, cd, 0x88)) + vf(_mm512_shuffle_f32x4(ab, cd, 0xdd));
#elif defined(__AVX2__)
    auto pair = [](f32x16 x, f32x16 y) __attribute__((always_inline)) {
        __m256 u = __m256(x.part[0] + x.part[1]), v = __m256(y.part[0] + y.part[1]);
        return vf(_mm256_permute2f128_ps(u, v, 0x20)) + vf(_mm256_permute2f128_ps(u, v, 0x31));
    };
    r.part[0] = pair(a, b);
    r.part[1] = pair(c, d);
#else
    auto fold = [](f32x16 x) __attribute__((always_inline)) {
        return (x.part[0] + x.part[2]) + (x.part[1] + x.part[3]);
    };
    r.part[0] = fold(a);
    r.part[1] = fold(b);
    r.part[2] = fold(c);
    r.part[3] = fold(d);
#endif
    return r;
}

// Lane 4 i + j = tree_sum(v[4 i + j]).
SLUICE_LANE f32x16 tree_sums(const f32x16 (&v)[16]) {
    f32x16 folded[4], r;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) folded[j] = fold_four(v[j], v[4 + j], v[8 + j], v[12 + j]);
    SLUICE_EACH r.part[p] = add_neighbours(add_halves(folded[0].part[p], folded[1].part[p]),
                                           add_halves(folded[2].part[p], folded[3].part[p]));
    return r;
}

// Side of the square of sums that fits in the registers.
constexpr int dot_tile = register_lanes == 16 ? 4 : 2;

// Lane 4 i + j = dot of a[i * width ..] and b[j * width ..]: bf16 values held as fp32, width a
// multiple of 16.
SLUICE_LANE f32x16 dots_4x4(const float* a, const float* b, int64_t width) {
    f32x16 sums[16];
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += dot_tile)
#pragma GCC unroll 2
        for (int j = 0; j < 4; j += dot_tile) {
            f32x16 tile[dot_tile][dot_tile] = {};
            for (int64_t k = 0; k < width; k += 16) {
                f32x16 x[dot_tile];
#pragma GCC unroll 4
                for (int s = 0; s < dot_tile; ++s) x[s] = load(b + (j + s) * width + k);
#pragma GCC unroll 4
                for (int r = 0; r < dot_tile; ++r) {
                    f32x16 y = load(a + (i + r) * width + k);
#pragma GCC unroll 4
                    for (int s = 0; s < dot_tile; ++s)
                        tile[r][s] = mul_add_exact(y, x[s], tile[r][s]);
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < dot_tile; ++r)
#pragma GCC unroll 4
                for (int s = 0; s < dot_tile; ++s) sums[4 * (i + r) + j + s] = tile[r][s];
        }
    return tree_sums(sums);
}

SLUICE_LANE int64_t padded_width(int64_t dim) {
    return (dim + 15) / 16 * 16;
}

// bf16 to fp32, with zeros up to the padded width; a null vector is all zero.
SLUICE_LANE void widen(float* to, const bf16* from, int64_t dim) {
    int64_t k = 0;
    if (from) {
        for (; k + 16 <= dim; k += 16) store(to + k, load(from + k));
        if (k < dim) store(to + k, load_tail(from + k, int(dim - k)));
        k = padded_width(dim);
    }
    for (; k < dim; k += 16) store(to + k, zero());
}

}  // namespace sluice::cpu::SLUICE_ISA
