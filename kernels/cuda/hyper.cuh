// What the kernels of HyperMix and HyperStep share.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.cuh"

namespace sluice::cuda {

// For few tokens, spread over the device. False where it does not take the shape, and then nothing
// was done.
bool launch_hyper_few(const HyperStep& op, Lane lane);
size_t hyper_few_scratch_bytes(int n, int dim);

namespace {

constexpr int block = 256, tokens = 4, hc_max = 4;
constexpr int rows_max = (2 + hc_max) * hc_max, sums = rows_max + 1;

// Slices of the width, each of them summed by itself: whole ones of 256 at the models' widths.
// Calls body(their number as a constant).
template <class Body>
auto with_slices(int dim, const Body& body) {
    switch (dim) {
        case 16 * block:
            return body(std::integral_constant<int, 16>{});
        case 28 * block:
            return body(std::integral_constant<int, 28>{});
        default:
            return body(std::integral_constant<int, 20>{});
    }
}
inline int slices_of(int dim) {
    return with_slices(dim, [](auto slices) { return slices(); });
}

__host__ __device__ inline int rows_of(const HyperMix& op) {
    return op.post ? (2 + op.hc) * op.hc : op.hc;
}
// Whether a step collapses with the coefficients that it computes.
inline bool collapses_own(const HyperStep& op) {
    return op.collapse.pre == op.mix.pre;
}

struct Partials {
    float* sum;        // [group][slice][token][sums]
    unsigned* ticket;  // [group], left at 0
};

// Reads the streams as they are after the step's combine and expand (either may be absent).
struct Streams {
    const bf16* h;
    const bf16* x;
    const bf16 *partial, *shared;  // x is their sum when partial is set
    const float *post, *comb;
    int hc, dim, k;

    // The layer's output at d: one value, or those of d and d + 1 (d even).
    template <int width>
    __device__ void sub_layer(int64_t row, int d, float (&y)[width]) const {
        uint32_t v[k_held];
        if (!partial) return unpack(load<width>(x + row * dim + d), y);
        float sum[width] = {};
        for (int base = 0; base < k; base += k_held) {  // all loads of a round before the additions
#pragma unroll
            for (int i = 0; i < k_held; ++i)
                if (base + i < k) v[i] = load<width>(partial + (row * k + base + i) * dim + d);
#pragma unroll
            for (int i = 0; i < k_held; ++i) {
                if (base + i >= k) continue;
                float of[width];
                unpack(v[i], of);
#pragma unroll
                for (int t = 0; t < width; ++t) sum[t] = sum[t] + of[t];
            }
        }
        float other[width];
        unpack(load<width>(shared + row * dim + d), other);
#pragma unroll
        for (int t = 0; t < width; ++t) y[t] = round_bf16(sum[t] + other[t]);
    }
    // The values of every stream at d, as bf16 numbers.
    template <int width>
    __device__ void at(int64_t row, int d, float (&out)[width][hc_max]) const {
        uint32_t old[hc_max];
#pragma unroll
        for (int j = 0; j < hc_max; ++j)
            old[j] = j < hc ? load<width>(h + (row * hc + j) * dim + d) : 0;
        float y[width] = {};
        if (post) sub_layer(row, d, y);
#pragma unroll
        for (int t = 0; t < width; ++t) {
            float of[hc_max];
#pragma unroll
            for (int j = 0; j < hc_max; ++j) of[j] = half_of(old[j], t);
            if (post)
                mixed(row, y[t], of, out[t]);
            else
#pragma unroll
                for (int j = 0; j < hc_max; ++j) out[t][j] = of[j];
        }
    }

 private:
    static constexpr int k_held = 8;

    template <int width>
    __device__ static uint32_t load(const bf16* from) {
        if constexpr (width == 2) return *reinterpret_cast<const uint32_t*>(from);
        return from->bits;
    }
    __device__ static float half_of(uint32_t word, int t) {
        return float_of(t ? word & 0xffff0000u : word << 16);
    }
    template <int width>
    __device__ static void unpack(uint32_t word, float (&to)[width]) {
#pragma unroll
        for (int t = 0; t < width; ++t) to[t] = half_of(word, t);
    }
    __device__ void mixed(int64_t row, float y, const float (&old)[hc_max],
                          float (&out)[hc_max]) const {
        const float* c = comb + row * hc * hc;
#pragma unroll
        for (int j = 0; j < hc_max; ++j) {
            if (j >= hc) continue;
            float s = c[j] * old[0];
#pragma unroll
            for (int i = 1; i < hc_max; ++i)
                if (i < hc) s = s + c[i * hc + j] * old[i];
            out[j] = round_bf16(post[row * hc + j] * y + s);
        }
    }
};

// Sum of v over k (or j) ascending for the lane's row (or column) of a hc x hc matrix with one
// element per lane.
__device__ inline float row_sum(float v, int hc) {
    int first = threadIdx.x % warp / hc * hc;
    float sum = 0.0f;
    for (int k = 0; k < hc; ++k) sum = sum + __shfl_sync(0xffffffffu, v, (first + k) % warp);
    return sum;
}
__device__ inline float column_sum(float v, int hc) {
    int column = threadIdx.x % warp % hc;
    float sum = 0.0f;
    for (int j = 0; j < hc; ++j) sum = sum + __shfl_sync(0xffffffffu, v, (j * hc + column) % warp);
    return sum;
}

__device__ inline float pre_of(const HyperMix& op, const float* m, int j) {
    return sigmoid_f32(m[j] * op.scale[0] + op.base[j]) + op.hc_eps;
}

// One warp per token: lane j * hc + k holds C[j][k].
__device__ void sinkhorn(const HyperMix& op, const float* m, int64_t row) {
    int hc = op.hc, lane = threadIdx.x % warp;
    bool inside = lane < hc * hc;
    if (lane < hc) op.pre[row * hc + lane] = pre_of(op, m, lane);
    if (!op.post) return;
    if (lane < hc)
        op.post[row * hc + lane] =
            2.0f * sigmoid_f32(m[hc + lane] * op.scale[1] + op.base[hc + lane]);
    int i = 2 * hc + lane;
    float c = inside ? m[i] * op.scale[2] + op.base[i] : 0.0f;
    float most = -INFINITY;
    for (int k = 0; k < hc; ++k) {
        float other = __shfl_sync(0xffffffffu, c, (lane / hc * hc + k) % warp);
        most = other > most ? other : most;
    }
    c = exp_f32(c - most);
    c = c / row_sum(c, hc) + op.hc_eps;
    for (int step = 0; step < op.iterations; ++step) {
        if (step > 0) c = c / (row_sum(c, hc) + op.hc_eps);
        c = c / (column_sum(c, hc) + op.hc_eps);
    }
    if (inside) op.comb[row * hc * hc + lane] = c;
}

// What a step reads, and where it writes the expanded streams (null: nowhere).
__device__ inline Streams streams_of(const HyperStep& op) {
    bool expands = op.expand.h != nullptr, combines = expands && op.combine.y != nullptr;
    return {expands ? op.expand.h : op.mix.h,
            op.expand.x,
            combines ? op.combine.partial : nullptr,
            op.combine.shared,
            expands ? op.expand.post : nullptr,
            op.expand.comb,
            op.mix.hc,
            op.mix.dim,
            op.combine.k};
}
__device__ inline bf16* expanded_of(const HyperStep& op) {
    return op.expand.h ? const_cast<bf16*>(op.mix.h) : nullptr;
}

// The streams as they lie in mix.h.
__device__ inline Streams mixed_streams(const HyperMix& op) {
    return {op.h, nullptr, nullptr, nullptr, nullptr, nullptr, op.hc, op.dim, 0};
}

// Norm and quantisation of one token from its collapsed values in shared memory; r is the factor of
// the norm. Four values per thread and step: dim % 128 == 0.
template <int group>
__device__ inline void norm_quant(const HyperStep& op, const bf16* collapsed, int64_t row,
                                  float r) {
    int dim = op.mix.dim;
#pragma unroll 5
    for (int d = threadIdx.x * 4; d < dim; d += block * 4) {  // dim % 128 == 0: whole warps
        uint2 x = *reinterpret_cast<const uint2*>(collapsed + d),
              w = *reinterpret_cast<const uint2*>(op.norm.w + d);
        const uint32_t xs[2] = {x.x, x.y}, ws[2] = {w.x, w.y};
        float y[4];
        uint32_t packed[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float a = float_of(i % 2 ? xs[i / 2] & 0xffff0000u : xs[i / 2] << 16);
            float b = float_of(i % 2 ? ws[i / 2] & 0xffff0000u : ws[i / 2] << 16);
            bf16 v = to_bf16(b * (a * r));
            y[i] = to_float(v);
            packed[i / 2] |= uint32_t(v.bits) << (16 * (i % 2));
        }
        *reinterpret_cast<uint2*>(op.norm.y + row * dim + d) = make_uint2(packed[0], packed[1]);
        store_four<group>(y, op.quant.out, row * dim + d);
    }
}

}  // namespace
}  // namespace sluice::cuda
