// ActQuant, RopeRequant, ScaleBf16: a group of 16 or 32 values at a time.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// 32 values as two halves: value k is lane k mod 16 of half k / 16.
struct Block {
    f32x16 low, high;
};

SLUICE_LANE f32x16 clamp(f32x16 x, float limit) {
    x = select(x > splat(limit), splat(limit), x);
    return select(x < splat(-limit), splat(-limit), x);
}

// float_to_e4m3() of numerics.h, as int lanes.
SLUICE_LANE i32x16 to_e4m3(f32x16 x) {
    i32x16 u = bits(x);
    i32x16 magnitude = u & splat_int(0x7fffffff);
    i32x16 tiny = bits(from_bits(magnitude) * splat(512.0f) + splat(8388608.0f)) & splat_int(0xf);
    i32x16 odd = (magnitude >> 20) & splat_int(1);
    i32x16 code = ((magnitude + splat_int(0x7ffff) + odd) >> 20) - splat_int(120 << 3);
    i32x16 sign = (u >> 24) & splat_int(0x80);
    return sign | select(splat_int(0x3c800000) > magnitude, tiny, code);
}

// The value of the code that to_e4m3() returns.
SLUICE_LANE f32x16 round_e4m3(f32x16 x) {
    i32x16 u = bits(x);
    i32x16 magnitude = u & splat_int(0x7fffffff);
    f32x16 magic = splat(16384.0f);  // its unit in the last place is 2^-9
    f32x16 tiny = (from_bits(magnitude) + magic) - magic;
    i32x16 odd = (magnitude >> 20) & splat_int(1);
    i32x16 rounded = (magnitude + splat_int(0x7ffff) + odd) & splat_int(~0xfffff);
    i32x16 sign = u & splat_int(int32_t(0x80000000u));
    return from_bits(sign | select(splat_int(0x3c800000) > magnitude, bits(tiny), rounded));
}

// round_e2m1() of numerics.h.
SLUICE_LANE f32x16 round_e2m1(f32x16 v) {
    f32x16 a = absolute(v);
    f32x16 q = splat(6.0f);
    q = select(a <= splat(5.0f), splat(4.0f), q);
    q = select(a < splat(3.5f), splat(3.0f), q);
    q = select(a <= splat(2.5f), splat(2.0f), q);
    q = select(a < splat(1.75f), splat(1.5f), q);
    q = select(a <= splat(1.25f), splat(1.0f), q);
    q = select(a < splat(0.75f), splat(0.5f), q);
    q = select(a <= splat(0.25f), splat(0.0f), q);
    return from_bits(bits(q) | (bits(v) & splat_int(int32_t(0x80000000u))));
}

// The largest magnitude as fp32 bits: above 0x7f7fffff if any value is non-finite.
SLUICE_LANE int32_t max_magnitude(i32x16 magnitude) {
    int32_t v[16];
    memcpy(v, &magnitude, sizeof v);
    int32_t max = v[0];
    for (int i = 1; i < 16; ++i) max = v[i] > max ? v[i] : max;
    return max;
}
SLUICE_LANE i32x16 magnitude_bits(f32x16 x) {
    return bits(x) & splat_int(0x7fffffff);
}
SLUICE_LANE int32_t max_magnitude(Block x) {
    i32x16 a = magnitude_bits(x.low), b = magnitude_bits(x.high);
    return max_magnitude(select(a > b, a, b));
}

// The E8M0 byte of a block whose largest magnitude has these bits (finite).
SLUICE_LANE uint8_t act_scale(int32_t max) {
    float a = float_of(uint32_t(max));
    return e8m0_ceil((a > 1e-4f ? a : 1e-4f) * (1.0f / 448.0f));
}

// 1 / 2^(byte - 127) for byte 1 .. 253: multiplying by it divides exactly.
SLUICE_LANE float e8m0_inverse(uint8_t byte) {
    return float_of(uint32_t(254 - byte) << 23);
}

// ActQuant of one block; also the last step of Swiglu and EngramGather.
SLUICE_LANE void act_quant_block(Block x, uint8_t* codes, uint8_t* scale) {
    int32_t max = max_magnitude(x);
    if (max > 0x7f7fffff) {
        memset(codes, 0, 32);
        *scale = 255;
        return;
    }
    *scale = act_scale(max);
    f32x16 inverse = splat(e8m0_inverse(*scale));
    store_bytes(codes, to_e4m3(clamp(x.low * inverse, 448.0f)));
    store_bytes(codes + 16, to_e4m3(clamp(x.high * inverse, 448.0f)));
}

static void run(const ActQuant& op, Team& team) {
    int64_t blocks = int64_t(op.n) * (op.cols / 32);
#pragma omp parallel for num_threads(team.threads) if (blocks * 32 > small_work)
    for (int64_t b = 0; b < blocks; ++b) {
        const bf16* x = op.x + b * 32;
        act_quant_block(Block{load(x), load(x + 16)}, op.out.codes + b * 32, op.out.scales + b);
    }
}

SLUICE_LANE void store_nan(bf16* x, int32_t count) {
    for (int32_t i = 0; i < count; ++i) x[i] = bf16{0x7fc0};
}

SLUICE_LANE void requant_32(bf16* x, bool fp4) {
    Block v{load(x), load(x + 16)};
    int32_t max = max_magnitude(v);
    if (max > 0x7f7fffff) return store_nan(x, 32);
    uint8_t byte = act_scale(max);
    if (fp4) {
        float a = float_of(uint32_t(max)), least = 6 * exp2i(-126);
        byte = e8m0_ceil((a > least ? a : least) * (1.0f / 6.0f));
    }
    f32x16 s = splat(e8m0_to_float(byte)), inverse = splat(e8m0_inverse(byte));
    float limit = fp4 ? 6.0f : 448.0f;
    f32x16 low = clamp(v.low * inverse, limit), high = clamp(v.high * inverse, limit);
    store(x, (fp4 ? round_e2m1(low) : round_e4m3(low)) * s);
    store(x + 16, (fp4 ? round_e2m1(high) : round_e4m3(high)) * s);
}

SLUICE_LANE void requant_16(bf16* x) {
    f32x16 v = load(x);
    int32_t max = max_magnitude(magnitude_bits(v));
    if (max > 0x7f7fffff) return store_nan(x, 16);
    float a = float_of(uint32_t(max)), least = 6 * exp2i(-9);
    float t = (a > least ? a : least) / 6.0f;
    float s = e4m3_to_float(float_to_e4m3(t < 448.0f ? t : 448.0f));
    store(x, round_e2m1(clamp(v / splat(s), 6.0f)) * splat(s));
}

SLUICE_LANE void rotate(bf16* x, const float* cos, const float* sin, int32_t half, bool inverse) {
    for (int32_t j = 0; j < half; ++j) {
        float even = to_float(x[2 * j]), odd = to_float(x[2 * j + 1]);
        float c = cos[j], s = inverse ? -sin[j] : sin[j];
        x[2 * j] = to_bf16(even * c - odd * s);
        x[2 * j + 1] = to_bf16(even * s + odd * c);
    }
}

static void run(const RopeRequant& op, Team& team) {
    int64_t vectors = int64_t(op.n) * op.heads;
#pragma omp parallel for num_threads(team.threads) if (vectors * op.dim > small_work)
    for (int64_t v = 0; v < vectors; ++v) {
        bf16* x = op.x + v * op.dim;
        if (op.rope.cos) {
            int32_t half = op.rope.half;
            int64_t position = op.position + v / op.heads * op.stride;
            int64_t at = (position - op.rope.first) * half;
            rotate(x + op.dim - 2 * half, op.rope.cos + at, op.rope.sin + at, half, op.inverse);
        }
        switch (op.requant) {
            case Requant::none:
                break;
            case Requant::fp8_32:
                for (int32_t g = 0; g < op.dim; g += 32) requant_32(x + g, false);
                break;
            case Requant::fp4_32:
                for (int32_t g = 0; g < op.dim; g += 32) requant_32(x + g, true);
                break;
            case Requant::fp4_16:
                for (int32_t g = 0; g < op.dim; g += 16) requant_16(x + g);
                break;
        }
    }
}

static void run(const ScaleBf16& op, Team&) {
    for (int32_t i = 0; i < op.count; ++i) op.x[i] = to_bf16(to_float(op.x[i]) * op.scale);
}

}  // namespace sluice::cpu::SLUICE_ISA
