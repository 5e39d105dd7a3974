// ActQuant, RopeRequant, ScaleBf16: a group of 16 to 128 values at a time. Hadamard: a vector.
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
template <int blocks>
SLUICE_LANE int32_t max_magnitude(const Block (&x)[blocks]) {
    auto larger = [](i32x16 a, i32x16 b) __attribute__((always_inline)) {
        return select(a > b, a, b);
    };
    i32x16 max = larger(magnitude_bits(x[0].low), magnitude_bits(x[0].high));
    SLUICE_UNROLL for (int b = 1; b < blocks; ++b) max =
        larger(max, larger(magnitude_bits(x[b].low), magnitude_bits(x[b].high)));
    return max_magnitude(max);
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

// ActQuant of one group of `blocks` blocks; also the last step of Swiglu and EngramGather.
template <int blocks>
SLUICE_LANE void act_quant_group(const Block (&x)[blocks], uint8_t* codes, uint8_t* scales) {
    int32_t max = max_magnitude(x);
    if (max > 0x7f7fffff) {
        memset(codes, 0, 32 * blocks);
        memset(scales, 255, blocks);
        return;
    }
    uint8_t scale = act_scale(max);
    memset(scales, scale, blocks);
    f32x16 inverse = splat(e8m0_inverse(scale));
    SLUICE_UNROLL for (int b = 0; b < blocks; ++b) {
        store_bytes(codes + 32 * b, to_e4m3(clamp(x[b].low * inverse, 448.0f)));
        store_bytes(codes + 32 * b + 16, to_e4m3(clamp(x[b].high * inverse, 448.0f)));
    }
}

template <int blocks>
static void act_quant(const ActQuant& op, Team& team) {
    constexpr int64_t size = 32 * blocks;
    int64_t groups = int64_t(op.n) * (op.cols / size);
#pragma omp parallel for num_threads(team.threads) if (groups * size > small_work)
    for (int64_t g = 0; g < groups; ++g) {
        Block x[blocks];
        SLUICE_UNROLL for (int b = 0; b < blocks; ++b) {
            const bf16* from = op.x + g * size + 32 * b;
            x[b] = Block{load(from), load(from + 16)};
        }
        act_quant_group(x, op.out.codes + g * size, op.out.scales + g * blocks);
    }
}

static void run(const ActQuant& op, Team& team) {
    op.group == 128 ? act_quant<4>(op, team) : act_quant<1>(op, team);
}

SLUICE_LANE void store_nan(bf16* x, int32_t count) {
    for (int32_t i = 0; i < count; ++i) x[i] = bf16{0x7fc0};
}

// One group of `blocks` blocks.
template <int blocks>
SLUICE_LANE void requant_group(bf16* x, bool fp4) {
    Block v[blocks];
    SLUICE_UNROLL for (int b = 0; b < blocks; ++b) v[b] =
        Block{load(x + 32 * b), load(x + 32 * b + 16)};
    int32_t max = max_magnitude(v);
    if (max > 0x7f7fffff) return store_nan(x, 32 * blocks);
    uint8_t byte = act_scale(max);
    if (fp4) {
        float a = float_of(uint32_t(max)), least = 6 * exp2i(-126);
        byte = e8m0_ceil((a > least ? a : least) * (1.0f / 6.0f));
    }
    f32x16 s = splat(e8m0_to_float(byte)), inverse = splat(e8m0_inverse(byte));
    float limit = fp4 ? 6.0f : 448.0f;
    SLUICE_UNROLL for (int b = 0; b < blocks; ++b) {
        f32x16 low = clamp(v[b].low * inverse, limit), high = clamp(v[b].high * inverse, limit);
        store(x + 32 * b, (fp4 ? round_e2m1(low) : round_e4m3(low)) * s);
        store(x + 32 * b + 16, (fp4 ? round_e2m1(high) : round_e4m3(high)) * s);
    }
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
        int32_t end = op.dim - op.kept;
        switch (op.requant) {
            case Requant::none:
                break;
            case Requant::fp8_32:
                for (int32_t g = 0; g < end; g += 32) requant_group<1>(x + g, false);
                break;
            case Requant::fp8_64:
                for (int32_t g = 0; g < end; g += 64) requant_group<2>(x + g, false);
                break;
            case Requant::fp4_32:
                for (int32_t g = 0; g < end; g += 32) requant_group<1>(x + g, true);
                break;
            case Requant::fp4_16:
                for (int32_t g = 0; g < end; g += 16) requant_16(x + g);
                break;
        }
    }
}

// Lane i of 16: a + b where bit `stride` of i is clear, a - b where it is set; a and b are the two
// lanes that differ in this bit.
template <int stride>
SLUICE_LANE f32x16 butterfly(f32x16 x) {
    f32x16 y;
    SLUICE_EACH {
        vi partner, sign;
        SLUICE_UNROLL for (int i = 0; i < register_lanes; ++i) {
            partner[i] = i ^ (stride % register_lanes);
            sign[i] = (p * register_lanes + i) & stride ? int32_t(0x80000000u) : 0;
        }
        vf other = __builtin_shuffle(x.part[p ^ (stride / register_lanes)], partner);
        y.part[p] = other + vf(vi(x.part[p]) ^ sign);
    }
    return y;
}

static void hadamard(bf16* x, int32_t dim, float scale) {
    float y[1024];
    for (int32_t i = 0; i < dim; i += 16) {
        f32x16 v = dim < 16 ? load_tail(x, dim) : load(x + i);
        if (dim > 1) v = butterfly<1>(v);
        if (dim > 2) v = butterfly<2>(v);
        if (dim > 4) v = butterfly<4>(v);
        if (dim > 8) v = butterfly<8>(v);
        store(y + i, v);
    }
    for (int32_t stride = 16; stride < dim; stride *= 2)
        for (int32_t i = 0; i < dim; i += 16) {
            if (i & stride) continue;
            f32x16 a = load(y + i), b = load(y + i + stride);
            store(y + i, a + b);
            store(y + i + stride, a - b);
        }
    for (int32_t i = 0; i < dim; i += 16) {
        f32x16 v = load(y + i) * splat(scale);
        dim < 16 ? store_tail(x, v, dim) : store(x + i, v);
    }
}

static void run(const Hadamard& op, Team& team) {
    float scale = float(1.0 / __builtin_sqrt(double(op.dim)));
#pragma omp parallel for num_threads(team.threads) if (int64_t(op.rows) * op.dim > small_work)
    for (int32_t row = 0; row < op.rows; ++row)
        hadamard(op.x + size_t(row) * op.dim, op.dim, scale);
}

static void run(const ScaleBf16& op, Team&) {
    for (int32_t i = 0; i < op.count; ++i) op.x[i] = to_bf16(to_float(op.x[i]) * op.scale);
}

}  // namespace sluice::cpu::SLUICE_ISA
