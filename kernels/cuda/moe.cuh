// What the kernels of routed experts share: activations as digits, codes as bytes, terms.
//
// An E4M3 value in units of 2^-9 is 18 bits and a sign: three signed base-256 digits. Weights are
// twice E2M1.
#pragma once

#include "kernels/cuda/device.cuh"

namespace sluice::cuda {

// Activations as digits, in the scratch.
struct Digits {
    uint8_t* planes;  // [row][blocks][96]; in the kernels of one row: records
    float* scale;     // [row][blocks]  2^(byte - 137), NaN for byte 255
};

// One activation row for each of several experts.
constexpr int items_max = 16;
struct Item {
    const uint8_t *c1, *s1, *c2, *s2, *c3, *s3;
    const int32_t *row, *slot;
    const float* weight;
    bf16* out;
};
struct Items {
    Item at[items_max];
    QuantRows x;  // of all items
    Digits in;    // [items][dim / 32]
    Digits act;   // [items][inner / 32]
    int dim, inner;
    float limit;
    unsigned* tickets;  // null: `act` is quantised in groups of 32, else 128
};

// Kernels for some shapes. False for any other shape, and then nothing was done.
bool launch_items(const Items& items, int count, Lane lane);

namespace {

constexpr int digits_bytes = 96;  // per block of 32: d0 [32], d1 [32], d2 [32]
// The same followed by its scale, and 12 x its sum as an integer. The stride puts neighbours in
// different banks.
constexpr int record_bytes = 112;

__device__ inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(low), "r"(high), "r"(selector));
    return out;
}
constexpr uint32_t table_low = 0x03020100u, table_high = 0x0c080604u;

// Four codes (the low 16 bits) to bytes. A selector nibble with bit 3 set replicates the sign of a
// table byte, which is 0: so flipping that bit separates positive from negative magnitudes. 12 is
// added to every weight, so twelve times the block's sum has to be subtracted.
__device__ inline uint32_t weights_offset(uint32_t codes, uint32_t flipped) {
    return prmt(table_low, table_high, codes) + 0x0c0c0c0cu - prmt(table_low, table_high, flipped);
}

struct Split {
    int d0, d1, d2;
};
__device__ inline Split split(int x) {
    int d0 = int8_t(x & 255);
    int rest = (x - d0) >> 8;
    int d1 = int8_t(rest & 255);
    return {d0, d1, (rest - d1) >> 8};
}

__device__ inline float activation_scale(uint8_t byte) {
    return e8m0_to_float(byte) * exp2i(-10);
}

__device__ inline float term(int integer, float s_x, float s_w) {
    return (__int2float_rn(integer) * s_x) * s_w;
}

// The three digits of one lane's activation, in the planes of a block.
__device__ inline void store_digits(const Digits& to, int64_t block, uint8_t code, uint8_t scale) {
    int lane = threadIdx.x % warp;
    Split d = split(e4m3_to_int(code));
    uint8_t* plane = to.planes + block * digits_bytes + lane;
    plane[0] = uint8_t(d.d0);
    plane[32] = uint8_t(d.d1);
    plane[64] = uint8_t(d.d2);
    if (lane == 0) to.scale[block] = activation_scale(scale);
}

// The sum of a block's integers, from its six pieces of 16 digits.
__device__ inline int block_sum_of(const uint4* planes) {
    int sum[3];
#pragma unroll
    for (int d = 0; d < 3; ++d) {
        sum[d] = 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint4 v = planes[d * 2 + half];
            sum[d] = __dp4a(int(v.x), 0x01010101, sum[d]);
            sum[d] = __dp4a(int(v.y), 0x01010101, sum[d]);
            sum[d] = __dp4a(int(v.z), 0x01010101, sum[d]);
            sum[d] = __dp4a(int(v.w), 0x01010101, sum[d]);
        }
    }
    return sum[0] + sum[1] * 256 + sum[2] * 65536;
}

// Quantises the warp's block of 32 activations and calls store(block, code, scale). Of a group of
// 128 the values lie where their digits will be until the last of its four blocks is there, which
// then stores all four.
template <int stride, class Store>
__device__ inline void quantise_block(float v, const Items& items, int64_t block,
                                      const Store& store) {
    int lane = threadIdx.x % warp;
    if (!items.tickets) {
        uint8_t code, scale;
        quantise_lane(v, &code, &scale);
        return store(block, code, scale);
    }
    auto values = [&](int64_t b) {
        return reinterpret_cast<unsigned short*>(items.act.planes + b * stride) + lane;
    };
    *values(block) = to_bf16(v).bits;
    if (!last_of_four(items.tickets + block / 4)) return;
    float all[4], a = 1e-4f;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        all[i] = to_float(bf16{__ldcg(values(block / 4 * 4 + i))});
        finite = finite && is_finite(all[i]);
        a = fmaxf(a, fabsf(all[i]));
    }
    bool bad = group_any<32>(!finite);
    uint8_t scale = bad ? 255 : e8m0_ceil(warp_max(a) * (1.0f / 448.0f));
    float inverse = bad ? 0.0f : exp2i(127 - int(scale));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float q = fminf(fmaxf(all[i] * inverse, -448.0f), 448.0f);
        store(block / 4 * 4 + i, bad ? uint8_t(0) : float_to_e4m3(q), scale);
    }
}

}  // namespace

}  // namespace sluice::cuda
