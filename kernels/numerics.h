// Number formats and the few functions of our own, for host and device, bit-identical everywhere.
//
// The arithmetic contract: every operation is one IEEE fp32 (or int) operation as written, rounded
// to nearest even, with subnormals kept and no contraction (-ffp-contract=off, nvcc -fmad=false). A
// fused multiply-add may be used only where the product is exact in fp32, because then it changes
// nothing: products of E4M3 x E4M3 (8 bits), E4M3 x BF16 (12 bits), BF16 x BF16 (16 bits), and any
// value x a power of two, as long as no product can overflow or become subnormal (kernels/cpu/fp8.h
// checks its operands for that).
//
// Everything here is static inline on purpose: the files of kernels/cpu are compiled for several
// instruction sets, and the linker would keep only one copy of a shared function, for whichever
// instruction set it saw first.
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define SLUICE_HD static inline __host__ __device__
#else
#define SLUICE_HD static inline __attribute__((always_inline))
#endif

namespace sluice {

struct bf16 {
    uint16_t bits;
};

SLUICE_HD uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
SLUICE_HD float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

SLUICE_HD float to_float(bf16 x) {
    return float_of(uint32_t(x.bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
SLUICE_HD bf16 to_bf16(float x) {
    uint32_t u = bits_of(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{uint16_t((u >> 16) | 0x40)};
    return bf16{uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}
SLUICE_HD float round_bf16(float x) {
    return to_float(to_bf16(x));
}

SLUICE_HD bool is_finite(float x) {
    return (bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

// E8M0: 2^(byte - 127); byte 0 is a subnormal fp32, 255 is NaN.
SLUICE_HD float e8m0_to_float(uint8_t e) {
    if (e == 0) return float_of(0x00400000u);
    if (e == 255) return float_of(0x7fc00000u);
    return float_of(uint32_t(e) << 23);
}

// E4M3FN: sign, 4 exponent bits (bias 7), 3 mantissa bits; 0x7f and 0xff are NaN; subnormals are
// multiples of 2^-9; the largest value is 448.
SLUICE_HD float e4m3_to_float(uint8_t c) {
    uint32_t magnitude = c & 0x7f;
    if (magnitude == 0x7f) return float_of(0x7fc00000u);
    float value = magnitude < 8
                      ? float(magnitude) * 0.001953125f  // 2^-9
                      : float_of((((magnitude >> 3) + 120) << 23) | ((magnitude & 7) << 20));
    return (c & 0x80) ? -value : value;
}

// In units of 2^-9 an E4M3 value is an integer of 18 bits and a sign. NaN codes are not allowed.
SLUICE_HD int32_t e4m3_to_int(uint8_t c) {
    int32_t magnitude = c & 0x7f;
    int32_t value = magnitude < 8 ? magnitude : (8 + (magnitude & 7)) << ((magnitude >> 3) - 1);
    return (c & 0x80) ? -value : value;
}

// Rounds to nearest even; |x| <= 448 (the caller clamps). Keeps the sign of zero.
SLUICE_HD uint8_t float_to_e4m3(float x) {
    uint32_t u = bits_of(x);
    uint32_t sign = (u >> 24) & 0x80;
    uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude < 0x3c800000u) {  // below 2^-6: subnormal, multiples of 2^-9
        float scaled =
            float_of(magnitude) * 512.0f + 8388608.0f;  // rounds to an integer, ties to even
        return uint8_t(sign | (bits_of(scaled) & 0xf));
    }
    uint32_t rounded = magnitude + 0x7ffff + ((magnitude >> 20) & 1);
    return uint8_t(sign | ((rounded >> 20) - (120u << 3)));
}

// Twice the value of an E2M1 code (bit 3: sign, bits 2..0: index into {0, 0.5, 1, 1.5, 2, 3, 4,
// 6}): 0, +-1, 2, 3, 4, 6, 8, 12.
SLUICE_HD int32_t e2m1_to_twice(uint8_t code) {
    int32_t index = code & 7;
    int32_t value = index < 4 ? index : (index < 6 ? 2 * index - 4 : (index == 6 ? 8 : 12));
    return (code & 8) ? -value : value;
}

// The E2M1 value nearest to v, |v| <= 6; ties go to the even code, the sign is kept. Returns the
// value, not the code.
SLUICE_HD float round_e2m1(float v) {
    float a = v < 0 ? -v : v;
    float q = a <= 0.25f   ? 0.0f
              : a < 0.75f  ? 0.5f
              : a <= 1.25f ? 1.0f
              : a < 1.75f  ? 1.5f
              : a <= 2.5f  ? 2.0f
              : a < 3.5f   ? 3.0f
              : a <= 5.0f  ? 4.0f
                           : 6.0f;
    return float_of(bits_of(q) | (bits_of(v) & 0x80000000u));
}

// The E8M0 byte of 2^ceil(log2 t), from the bits of a normal t > 0.
SLUICE_HD uint8_t e8m0_ceil(float t) {
    uint32_t u = bits_of(t);
    return uint8_t((u >> 23) + ((u & 0x7fffff) != 0));
}

// 2^k, |k| <= 126.
SLUICE_HD float exp2i(int32_t k) {
    return float_of(uint32_t(k + 127) << 23);
}

// e^x, at most 1.5 ulp off; x <= -103.98 gives 0, x >= 88.73 gives infinity, NaN gives NaN.
// Multiplications and additions only, in this order: the vector code repeats it lane by lane.
SLUICE_HD float exp_f32(float x) {
    if (!(x > -103.98f)) return x <= -103.98f ? 0.0f : x;
    if (x > 88.73f) return float_of(0x7f800000u);
    float n = x * 1.44269504f + 12582912.0f;  // rounds to an integer
    int32_t k = int32_t(bits_of(n) - 0x4b400000u);
    n = n - 12582912.0f;
    float r = x - n * 0.693359375f;  // 9 bits: the product is exact
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    int32_t half =
        // Scaled in two steps, so that subnormal results round once and no factor is 2^128.
        k >> 1;
    return (p * exp2i(half)) * exp2i(k - half);
}

SLUICE_HD float sigmoid_f32(float x) {
    return 1.0f / (1.0f + exp_f32(-x));
}
SLUICE_HD float silu_f32(float x) {
    return x / (1.0f + exp_f32(-x));
}

// log(1 + t) for 0 <= t <= 1, by the series of 2 atanh(t / (2 + t)).
SLUICE_HD float log1p_f32(float t) {
    float s = t / (2.0f + t);
    float z = s * s;
    float p = 1.0f / 15.0f;
    p = p * z + 1.0f / 13.0f;
    p = p * z + 1.0f / 11.0f;
    p = p * z + 1.0f / 9.0f;
    p = p * z + 1.0f / 7.0f;
    p = p * z + 0.2f;
    p = p * z + 1.0f / 3.0f;
    float q = s * z;
    return 2.0f * (s + q * p);
}

// log(1 + e^z); z itself above 20.
SLUICE_HD float softplus_f32(float z) {
    if (z > 20.0f) return z;
    float a = z < 0 ? z : -z;
    float l = log1p_f32(exp_f32(a));
    return z > 0 ? z + l : l;
}

}  // namespace sluice
