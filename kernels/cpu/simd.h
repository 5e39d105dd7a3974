// Sixteen fp32 lanes, the unit of every sum ("dot of 16" in kernels/ops.h), as one, two or four
// registers. The bodies use only these functions, each of which is one IEEE operation per lane, so
// they give the same bits on every instruction set.
//
// No multiply-add is fused here. Only mul_add_exact() may fuse: it is for products that are exact.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/numerics.h"

#if defined(__AVX2__)
// With sanitizers on, gcc 12 calls its own "undefined" registers uninitialised.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#ifndef SLUICE_ISA
#error "included by kernels/cpu/isa_X.cpp only"
#endif

#define SLUICE_LANE static inline __attribute__((always_inline))
#define SLUICE_LANE_MEMBER inline __attribute__((always_inline))

namespace sluice::cpu::SLUICE_ISA {

#if defined(__AVX512F__)
constexpr int register_lanes = 16;
#elif defined(__AVX2__)
constexpr int register_lanes = 8;
#else
constexpr int register_lanes = 4;
#endif
constexpr int registers = 16 / register_lanes;

typedef float vf __attribute__((vector_size(4 * register_lanes)));
typedef int32_t vi __attribute__((vector_size(4 * register_lanes)));
typedef uint16_t vh __attribute__((vector_size(2 * register_lanes)));
typedef uint8_t vb __attribute__((vector_size(register_lanes)));

struct f32x16 {
    vf part[registers];
};
struct i32x16 {
    vi part[registers];
};

#define SLUICE_UNROLL _Pragma("GCC unroll 16")
#define SLUICE_EACH _Pragma("GCC unroll 4") for (int p = 0; p < registers; ++p)

SLUICE_LANE f32x16 splat(float x) {
    f32x16 r;
    SLUICE_EACH r.part[p] = x - vf{};  // subtracting +0 keeps -0
    return r;
}
SLUICE_LANE i32x16 splat_int(int32_t x) {
    i32x16 r;
    SLUICE_EACH r.part[p] = x - vi{};
    return r;
}
SLUICE_LANE f32x16 zero() {
    f32x16 r;
    SLUICE_EACH r.part[p] = vf{};
    return r;
}

// One register at a time: a copy of the whole struct would go through the stack.
SLUICE_LANE f32x16 load(const float* x) {
    f32x16 r;
    SLUICE_EACH memcpy(&r.part[p], x + p * register_lanes, sizeof(vf));
    return r;
}
SLUICE_LANE void store(float* to, f32x16 x) {
    SLUICE_EACH memcpy(to + p * register_lanes, &x.part[p], sizeof(vf));
}

SLUICE_LANE f32x16 operator+(f32x16 a, f32x16 b) {
    SLUICE_EACH a.part[p] += b.part[p];
    return a;
}
SLUICE_LANE f32x16 operator-(f32x16 a, f32x16 b) {
    SLUICE_EACH a.part[p] -= b.part[p];
    return a;
}
SLUICE_LANE f32x16 operator*(f32x16 a, f32x16 b) {
    SLUICE_EACH a.part[p] *= b.part[p];
    return a;
}
SLUICE_LANE f32x16 operator/(f32x16 a, f32x16 b) {
    SLUICE_EACH a.part[p] /= b.part[p];
    return a;
}

SLUICE_LANE i32x16 operator+(i32x16 a, i32x16 b) {
    SLUICE_EACH a.part[p] += b.part[p];
    return a;
}
SLUICE_LANE i32x16 operator-(i32x16 a, i32x16 b) {
    SLUICE_EACH a.part[p] -= b.part[p];
    return a;
}
SLUICE_LANE i32x16 operator&(i32x16 a, i32x16 b) {
    SLUICE_EACH a.part[p] &= b.part[p];
    return a;
}
SLUICE_LANE i32x16 operator|(i32x16 a, i32x16 b) {
    SLUICE_EACH a.part[p] |= b.part[p];
    return a;
}
SLUICE_LANE i32x16 operator^(i32x16 a, i32x16 b) {
    SLUICE_EACH a.part[p] ^= b.part[p];
    return a;
}
SLUICE_LANE i32x16 operator<<(i32x16 a, int bits) {
    SLUICE_EACH a.part[p] <<= bits;
    return a;
}
// Arithmetic shift.
SLUICE_LANE i32x16 operator>>(i32x16 a, int bits) {
    SLUICE_EACH a.part[p] >>= bits;
    return a;
}
// All ones where true.
SLUICE_LANE i32x16 operator>(i32x16 a, i32x16 b) {
    SLUICE_EACH a.part[p] = a.part[p] > b.part[p];
    return a;
}
SLUICE_LANE i32x16 operator>(f32x16 a, f32x16 b) {
    i32x16 r;
    SLUICE_EACH r.part[p] = a.part[p] > b.part[p];
    return r;
}
SLUICE_LANE i32x16 operator<(f32x16 a, f32x16 b) {
    return b > a;
}
SLUICE_LANE i32x16 operator<=(f32x16 a, f32x16 b) {
    i32x16 r;
    SLUICE_EACH r.part[p] = a.part[p] <= b.part[p];
    return r;
}
// a where the mask is all ones, b where it is 0.
SLUICE_LANE i32x16 select(i32x16 mask, i32x16 a, i32x16 b) {
    SLUICE_EACH a.part[p] = mask.part[p] ? a.part[p] : b.part[p];
    return a;
}

SLUICE_LANE i32x16 bits(f32x16 x) {
    i32x16 r;
    SLUICE_EACH r.part[p] = vi(x.part[p]);
    return r;
}
SLUICE_LANE f32x16 from_bits(i32x16 x) {
    f32x16 r;
    SLUICE_EACH r.part[p] = vf(x.part[p]);
    return r;
}
SLUICE_LANE f32x16 select(i32x16 mask, f32x16 a, f32x16 b) {
    return from_bits(select(mask, bits(a), bits(b)));
}
SLUICE_LANE f32x16 convert(i32x16 x) {
    f32x16 r;
    SLUICE_EACH r.part[p] = __builtin_convertvector(x.part[p], vf);
    return r;
}
SLUICE_LANE f32x16 absolute(f32x16 x) {
    return from_bits(bits(x) & splat_int(0x7fffffff));
}

// a * b + c where a * b is exact in fp32, so that fusing changes nothing.
SLUICE_LANE vf mul_add_exact(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return vf(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#elif defined(__FMA__)
    return vf(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
    return a * b + c;
#endif
}
SLUICE_LANE f32x16 mul_add_exact(f32x16 a, f32x16 b, f32x16 c) {
    SLUICE_EACH c.part[p] = mul_add_exact(a.part[p], b.part[p], c.part[p]);
    return c;
}

// Lanes to one value by the tree of kernels/ops.h: v[i] += v[i + 8], 4, 2, 1.
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x8 __attribute__((vector_size(32)));
SLUICE_LANE float tree_sum(f32x16 x) {
#if defined(__AVX512F__)
    vf a = x.part[0];
    f32x8 v8 = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
    f32x8 v8 = x.part[0] + x.part[1];
#endif
#if defined(__AVX2__)
    f32x4 v =
        __builtin_shufflevector(v8, v8, 0, 1, 2, 3) + __builtin_shufflevector(v8, v8, 4, 5, 6, 7);
#else
    f32x4 v = (x.part[0] + x.part[2]) + (x.part[1] + x.part[3]);
#endif
    return (v[0] + v[2]) + (v[1] + v[3]);
}

// ---- between 32 bits and fewer ------------------------------------------------------------------
//
// One instruction where there is one: __builtin_convertvector of this compiler takes a register
// apart first.
SLUICE_LANE vi widen(vh x) {
#if defined(__AVX512F__)
    return vi(_mm512_cvtepu16_epi32(__m256i(x)));
#elif defined(__AVX2__)
    return vi(_mm256_cvtepu16_epi32(__m128i(x)));
#else
    return __builtin_convertvector(x, vi);
#endif
}
SLUICE_LANE vi widen(vb x) {
#if defined(__AVX512F__)
    return vi(_mm512_cvtepu8_epi32(__m128i(x)));
#elif defined(__AVX2__)
    __m128i low = _mm_cvtsi64_si128(int64_t(x));
    return vi(_mm256_cvtepu8_epi32(low));
#else
    return __builtin_convertvector(x, vi);
#endif
}
// For lanes of 0 .. 0xffff.
SLUICE_LANE vh narrow_16(vi x) {
#if defined(__AVX512F__)
    return vh(_mm512_cvtepi32_epi16(__m512i(x)));
#elif defined(__AVX2__)
    __m256i v = __m256i(x);
    return vh(_mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
#else
    return __builtin_convertvector(x, vh);
#endif
}

// ---- bf16 ---------------------------------------------------------------------------------------
SLUICE_LANE f32x16 load(const bf16* x) {
    f32x16 r;
    SLUICE_EACH {
        vh h;
        memcpy(&h, x + p * register_lanes, sizeof h);
        r.part[p] = vf(widen(h) << 16);
    }
    return r;
}
// Rounds to nearest even, NaN stays NaN: to_bf16() of numerics.h.
SLUICE_LANE i32x16 to_bf16_bits(f32x16 x) {
    i32x16 u = bits(x);
    i32x16 odd = (u >> 16) & splat_int(1);
    i32x16 rounded = (u + splat_int(0x7fff) + odd) >> 16;
    i32x16 nan = (u & splat_int(0x7fffffff)) > splat_int(0x7f800000);
    return select(nan, (u >> 16) | splat_int(0x40), rounded);
}
SLUICE_LANE f32x16 round_bf16(f32x16 x) {
    return from_bits(to_bf16_bits(x) << 16);
}
SLUICE_LANE void store(bf16* to, f32x16 x) {
    i32x16 u = to_bf16_bits(x) & splat_int(0xffff);
    SLUICE_EACH {
        vh h = narrow_16(u.part[p]);
        memcpy(to + p * register_lanes, &h, sizeof h);
    }
}

// The first `count` < 16 values, followed by zeros. Zeros add +0 to a sum, which changes no bit of
// it (a sum that starts at +0 is never -0).
SLUICE_LANE f32x16 load_tail(const bf16* x, int count) {
    bf16 v[16] = {};
    for (int i = 0; i < count; ++i) v[i] = x[i];
    return load(v);
}
SLUICE_LANE f32x16 load_tail(const float* x, int count) {
    float v[16] = {};
    for (int i = 0; i < count; ++i) v[i] = x[i];
    return load(v);
}
SLUICE_LANE void store_tail(bf16* to, f32x16 x, int count) {
    bf16 v[16];
    store(v, x);
    for (int i = 0; i < count; ++i) to[i] = v[i];
}

SLUICE_LANE void store_tail(float* to, f32x16 x, int count) {
    float v[16];
    store(v, x);
    for (int i = 0; i < count; ++i) to[i] = v[i];
}

// The low byte of each lane.
SLUICE_LANE void store_bytes(uint8_t* to, i32x16 x) {
    SLUICE_EACH {
        vb b = __builtin_convertvector(x.part[p], vb);
        memcpy(to + p * register_lanes, &b, sizeof b);
    }
}
SLUICE_LANE i32x16 load_bytes(const uint8_t* x) {
    i32x16 r;
    SLUICE_EACH {
        vb b;
        memcpy(&b, x + p * register_lanes, sizeof b);
        r.part[p] = widen(b);
    }
    return r;
}

// ---- exp: exp_f32() of numerics.h, lane by lane -------------------------------------------------
SLUICE_LANE f32x16 exp_f32(f32x16 x) {
    f32x16 magic = splat(12582912.0f);
    f32x16 n = x * splat(1.44269504f) + magic;
    i32x16 k = bits(n) - splat_int(0x4b400000);
    n = n - magic;
    f32x16 r = x - n * splat(0.693359375f);
    r = r - n * splat(-2.12194440e-4f);
    f32x16 p = splat(1.9875691500e-4f);
    p = p * r + splat(1.3981999507e-3f);
    p = p * r + splat(8.3334519073e-3f);
    p = p * r + splat(4.1665795894e-2f);
    p = p * r + splat(1.6666665459e-1f);
    p = p * r + splat(5.0000001201e-1f);
    p = p * (r * r) + r;
    p = p + splat(1.0f);
    i32x16 half = k >> 1;
    f32x16 y = (p * from_bits((half + splat_int(127)) << 23)) *
               from_bits((k - half + splat_int(127)) << 23);
    y = select(x <= splat(-103.98f), zero(), y);
    y = select(x > splat(88.73f), from_bits(splat_int(0x7f800000)), y);
    i32x16 nan = (bits(x) & splat_int(0x7fffffff)) > splat_int(0x7f800000);
    return select(nan, x, y);
}

}  // namespace sluice::cpu::SLUICE_ISA
