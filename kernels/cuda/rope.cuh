// Rotation of neighbouring pairs, and the in-place quantisers, on values in registers.
#pragma once

#include "kernels/cuda/device.cuh"

namespace sluice::cuda {

// The rotation of one vector: pairs from element `first` on.
struct Turn {
    const float *cos, *sin;  // of this position
    int first, end;
    bool inverse;

    // Elements at and at + 1, bf16 numbers before and after. A pair outside the rotated part stays
    // as it is.
    __device__ inline void apply(int at, float& a, float& b) const {
        if (at < first || at >= end) return;
        int i = (at - first) / 2;
        float c = cos[i], s = inverse ? -sin[i] : sin[i];
        float turned = a * c - b * s;
        b = round_bf16(a * s + b * c);
        a = round_bf16(turned);
    }
};

__device__ inline Turn turn_of(const RopeTable& rope, int position, int dim, bool inverse) {
    if (!rope.cos) return {nullptr, nullptr, dim, dim, false};
    int64_t row = int64_t(position - rope.first) * rope.half;
    return {rope.cos + row, rope.sin + row, dim - 2 * rope.half, dim, inverse};
}

// Quantises two neighbouring values of a group of `group` in place.
template <int group>
__device__ inline void requantise_group(float& x, float& y, Requant kind) {
    constexpr int lanes = group / 2;
    bool bad = group_any<lanes>(!is_finite(x) || !is_finite(y));
    float a = group_max<lanes>(fmaxf(fabsf(x), fabsf(y)));
    float s;
    if (kind == Requant::fp8_32 || kind == Requant::fp8_64) {
        s = exp2i(int(e8m0_ceil(fmaxf(a, 1e-4f) * (1.0f / 448.0f))) - 127);
        float v = fminf(fmaxf(x / s, -448.0f), 448.0f), w = fminf(fmaxf(y / s, -448.0f), 448.0f);
        x = e4m3_to_float(float_to_e4m3(v)) * s;
        y = e4m3_to_float(float_to_e4m3(w)) * s;
    } else {
        if (kind == Requant::fp4_32) {
            s = e8m0_to_float(e8m0_ceil(fmaxf(a, 6.0f * exp2i(-126)) * (1.0f / 6.0f)));
        } else {
            s = e4m3_to_float(float_to_e4m3(fminf(fmaxf(a, 6.0f * exp2i(-9)) / 6.0f, 448.0f)));
        }
        x = round_e2m1(fminf(fmaxf(x / s, -6.0f), 6.0f)) * s;
        y = round_e2m1(fminf(fmaxf(y / s, -6.0f), 6.0f)) * s;
    }
    if (bad) x = y = float_of(0x7fc00000u);
}

// Called by all lanes of the warp; lane l has elements 2l and 2l + 1 of 64, which change where
// `wanted` (the same for a whole group).
__device__ inline void requantise(float& x, float& y, Requant kind, bool wanted) {
    float v = x, w = y;
    if (kind == Requant::none) return;
    if (kind == Requant::fp4_16)
        requantise_group<16>(v, w, kind);
    else if (kind == Requant::fp8_64)
        requantise_group<64>(v, w, kind);
    else
        requantise_group<32>(v, w, kind);
    if (wanted) {
        x = v;
        y = w;
    }
}

}  // namespace sluice::cuda
