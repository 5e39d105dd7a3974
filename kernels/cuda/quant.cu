// Source of device.cuh. ActQuant, RopeRequant, Swiglu, ScaleBf16, EngramGather: element-wise work
// in groups of 16 to 128. Hadamard, HeadNorm: short vectors, in registers of a warp.
#include <cmath>

#include "kernels/cuda/rope.cuh"

namespace sluice::cuda {
namespace {

__global__ void act_quant_kernel(ActQuant op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 32 + threadIdx.x % warp;
    store_lane(to_float(op.x[at]), op.out, at);
}

__global__ void swiglu_kernel(Swiglu op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 32 + threadIdx.x % warp;
    const float* weight = op.weights ? op.weights + at / op.cols : nullptr;
    store_lane(swiglu_value(to_float(op.gate[at]), to_float(op.up[at]), weight, op.limit), op.out,
               at);
}

// The same in groups of 128, four neighbouring values per lane.
__global__ void act_quant_128_kernel(ActQuant op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 128 + threadIdx.x % warp * 4;
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = to_float(op.x[at + i]);
    store_four<128>(v, op.out, at);
}

__global__ void swiglu_128_kernel(Swiglu op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 128 + threadIdx.x % warp * 4;
    const float* weight = op.weights ? op.weights + at / op.cols : nullptr;
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v[i] = swiglu_value(to_float(op.gate[at + i]), to_float(op.up[at + i]), weight, op.limit);
    store_four<128>(v, op.out, at);
}

__global__ void engram_gather_kernel(EngramGather op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int per_row = op.dim / 32, lane = threadIdx.x % warp;
    int64_t row = op.index[group / per_row];
    int block = group % per_row;
    float value = e4m3_to_float(op.codes[row * op.dim + block * 32 + lane]) *
                  e8m0_to_float(op.scales[row * per_row + block]);
    store_lane(round_bf16(value), op.out, group * 32 + lane);
}

__global__ void scale_kernel(ScaleBf16 op) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < op.count) op.x[i] = to_bf16(to_float(op.x[i]) * op.scale);
}

// One warp per vector, two neighbouring elements per lane: 64 elements per step.
__global__ void rope_requant_kernel(RopeRequant op) {
    start_after_previous();
    int64_t vector = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (vector >= int64_t(op.n) * op.heads) return;
    Turn turn =
        turn_of(op.rope, op.position + int(vector / op.heads) * op.stride, op.dim, op.inverse);
    bf16* x = op.x + vector * op.dim;
    for (int base = 0; base < op.dim; base += 64) {
        int at = base + 2 * (threadIdx.x % warp);
        bool inside = at < op.dim;
        float a = inside ? to_float(x[at]) : 0.0f, b = inside ? to_float(x[at + 1]) : 0.0f;
        turn.apply(at, a, b);
        requantise(a, b, op.requant, at < op.dim - op.kept);
        if (inside) {
            x[at] = to_bf16(a);
            x[at + 1] = to_bf16(b);
        }
    }
}

// One warp per vector: lane l holds elements l, l + 32, ... With fewer than 32 elements some lanes
// hold none; they pair up among themselves.
template <int each>
__global__ void hadamard_kernel(Hadamard op, float scale) {
    start_after_previous();
    int64_t row = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (row >= op.rows) return;
    int lane = threadIdx.x % warp;
    bool inside = each > 1 || lane < op.dim;
    bf16* x = op.x + row * op.dim + lane;
    float v[each];
#pragma unroll
    for (int i = 0; i < each; ++i) v[i] = inside ? to_float(x[i * warp]) : 0.0f;
    for (int stride = 1; stride < warp && stride < op.dim; stride *= 2)
#pragma unroll
        for (int i = 0; i < each; ++i) {
            float other = __shfl_xor_sync(0xffffffffu, v[i], stride);
            v[i] = lane & stride ? other - v[i] : v[i] + other;
        }
#pragma unroll
    for (int stride = 1; stride < each; stride *= 2)
#pragma unroll
        for (int i = 0; i < each; ++i)
            if (!(i & stride)) {
                float a = v[i], b = v[i + stride];
                v[i] = a + b;
                v[i + stride] = a - b;
            }
#pragma unroll
    for (int i = 0; i < each; ++i)
        if (inside) x[i * warp] = to_bf16(v[i] * scale);
}

constexpr int head_held = 32;

// Half a warp per head: lane l adds elements l, l + 16, ..., which is the dot of 16. Heads of up to
// 512 values stay in registers.
template <bool held>
__global__ void head_norm_kernel(HeadNorm op) {
    start_after_previous();
    int64_t head = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 16;
    bool inside = head < int64_t(op.n) * op.heads;
    bf16* x = op.x + (inside ? head : 0) * op.dim + threadIdx.x % 16;
    int dim = op.dim - int(threadIdx.x % 16);
    float sum = 0.0f, v[held ? head_held : 1];
    auto add = [&](float value) { sum = sum + round_bf16(value * value); };
    if constexpr (held) {
#pragma unroll
        for (int i = 0; i < head_held; ++i) v[i] = i * 16 < dim ? to_float(x[i * 16]) : 0.0f;
#pragma unroll
        for (int i = 0; i < head_held; ++i) add(v[i]);
    } else {
        for (int k = 0; k < dim; k += 16) add(to_float(x[k]));
    }
#pragma unroll
    for (int off = 8; off > 0; off >>= 1) sum = sum + __shfl_xor_sync(0xffffffffu, sum, off);
    float mean = round_bf16(sum / float(op.dim));
    float rho = round_bf16(1.0f / sqrtf(round_bf16(mean + op.eps)));
    if (!inside) return;
    if constexpr (held) {
#pragma unroll
        for (int i = 0; i < head_held; ++i)
            if (i * 16 < dim) x[i * 16] = to_bf16(v[i] * rho);
    } else {
        for (int k = 0; k < dim; k += 16) x[k] = to_bf16(to_float(x[k]) * rho);
    }
}

constexpr int block = 256;
unsigned grid_of(int64_t warps) {
    return unsigned(ceil_div<int64_t>(warps, block / warp));
}

}  // namespace

const void* any_kernel() {
    return reinterpret_cast<const void*>(act_quant_kernel);
}

void launch(const ActQuant& op, Lane lane) {
    int64_t groups = int64_t(op.n) * (op.cols / op.group);
    if (groups)
        launch_kernel(op.group == 128 ? act_quant_128_kernel : act_quant_kernel, grid_of(groups),
                      block, 0, lane, op, groups);
}
void launch(const Swiglu& op, Lane lane) {
    int64_t groups = int64_t(op.n) * (op.cols / op.group);
    if (groups)
        launch_kernel(op.group == 128 ? swiglu_128_kernel : swiglu_kernel, grid_of(groups), block,
                      0, lane, op, groups);
}
void launch(const EngramGather& op, Lane lane) {
    int64_t groups = int64_t(op.n) * op.columns * (op.dim / 32);
    if (groups) launch_kernel(engram_gather_kernel, grid_of(groups), block, 0, lane, op, groups);
}
void launch(const ScaleBf16& op, Lane lane) {
    if (op.count) launch_kernel(scale_kernel, ceil_div(op.count, block), block, 0, lane, op);
}
void launch(const RopeRequant& op, Lane lane) {
    int64_t vectors = int64_t(op.n) * op.heads;
    if (vectors) launch_kernel(rope_requant_kernel, grid_of(vectors), block, 0, lane, op);
}

void launch(const Hadamard& op, Lane lane) {
    float scale = float(1.0 / std::sqrt(double(op.dim)));
    auto start = [&](auto kernel) {
        launch_kernel(kernel, grid_of(op.rows), block, 0, lane, op, scale);
    };
    if (!op.rows) return;
    switch (op.dim / warp) {
        case 2:
            return start(hadamard_kernel<2>);
        case 4:
            return start(hadamard_kernel<4>);
        case 8:
            return start(hadamard_kernel<8>);
        case 16:
            return start(hadamard_kernel<16>);
        case 32:
            return start(hadamard_kernel<32>);
        default:
            return start(hadamard_kernel<1>);
    }
}
void launch(const HeadNorm& op, Lane lane) {
    int64_t heads = int64_t(op.n) * op.heads;
    if (heads)
        launch_kernel(op.dim <= head_held * 16 ? head_norm_kernel<true> : head_norm_kernel<false>,
                      grid_of(ceil_div<int64_t>(heads, 2)), block, 0, lane, op);
}

}  // namespace sluice::cuda
