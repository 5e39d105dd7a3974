// ActQuant, RopeRequant, Swiglu, ScaleBf16, EngramGather: element-wise work in groups of 32 (or
// 16).
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

// max over `width` neighbouring lanes (16 or 8: two elements a lane).
template <int width>
__device__ float group_max(float x) {
#pragma unroll
    for (int off = width / 2; off > 0; off >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, off));
    return x;
}
template <int width>
__device__ bool group_any(bool x) {
    unsigned votes = __ballot_sync(0xffffffffu, x);
    unsigned lane = threadIdx.x % warp;
    unsigned mask = width == 32 ? 0xffffffffu : ((1u << width) - 1) << (lane / width * width);
    return (votes & mask) != 0;
}

// The scale byte and the code of one value whose group of 32 lives in the warp.
__device__ void quantise_lane(float v, uint8_t* code, uint8_t* scale) {
    bool bad = group_any<32>(!is_finite(v));
    float a = fmaxf(warp_max(fabsf(v)), 1e-4f);
    uint8_t byte = bad ? 255 : e8m0_ceil(a * (1.0f / 448.0f));
    float inverse = bad ? 0.0f : exp2i(127 - (int)byte);
    float q = fminf(fmaxf(v * inverse, -448.0f), 448.0f);
    *code = bad ? 0 : float_to_e4m3(q);
    if (threadIdx.x % warp == 0) *scale = byte;
}

__global__ void act_quant_kernel(ActQuant op, int64_t groups) {
    int64_t group = (int64_t)blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 32 + threadIdx.x % warp;
    quantise_lane(to_float(op.x[at]), op.out.codes + at, op.out.scales + group);
}

__global__ void swiglu_kernel(Swiglu op, int64_t groups) {
    int64_t group = (int64_t)blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 32 + threadIdx.x % warp;
    float g = to_float(op.gate[at]), u = to_float(op.up[at]);
    g = g > op.limit ? op.limit : g;  // NaN stays
    u = u > op.limit ? op.limit : (u < -op.limit ? -op.limit : u);
    float a = silu_f32(g) * u;
    if (op.weights) a = op.weights[at / op.cols] * a;
    quantise_lane(round_bf16(a), op.out.codes + at, op.out.scales + group);
}

__global__ void engram_gather_kernel(EngramGather op, int64_t groups) {
    int64_t group = (int64_t)blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int per_row = op.dim / 32, lane = threadIdx.x % warp;
    int64_t row = op.index[group / per_row];
    int block = group % per_row;
    float value = e4m3_to_float(op.codes[row * op.dim + block * 32 + lane]) *
                  e8m0_to_float(op.scales[row * per_row + block]);
    quantise_lane(round_bf16(value), op.out.codes + group * 32 + lane, op.out.scales + group);
}

__global__ void scale_kernel(ScaleBf16 op) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < op.count) op.x[i] = to_bf16(to_float(op.x[i]) * op.scale);
}

// Two neighbouring values of a group of `group` quantised in place.
template <int group>
__device__ void requantise(float& x, float& y, Requant kind) {
    constexpr int lanes = group / 2;
    bool bad = group_any<lanes>(!is_finite(x) || !is_finite(y));
    float a = group_max<lanes>(fmaxf(fabsf(x), fabsf(y)));
    float s;
    if (kind == Requant::fp8_32) {
        s = exp2i((int)e8m0_ceil(fmaxf(a, 1e-4f) * (1.0f / 448.0f)) - 127);
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

// One warp a vector, two neighbouring elements a lane and step: 64 elements a step.
__global__ void rope_requant_kernel(RopeRequant op) {
    int64_t vector = (int64_t)blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (vector >= (int64_t)op.n * op.heads) return;
    int row = vector / op.heads, lane = threadIdx.x % warp;
    bf16* x = op.x + vector * op.dim;
    int rotated = op.rope.cos ? op.dim - 2 * op.rope.half : op.dim;
    int64_t angle = (int64_t)(op.position + row * op.stride - op.rope.first) * op.rope.half;
    for (int base = 0; base < op.dim; base += 64) {
        int at = base + 2 * lane;
        bool inside = at < op.dim;
        float a = inside ? to_float(x[at]) : 0.0f, b = inside ? to_float(x[at + 1]) : 0.0f;
        if (inside && at >= rotated) {
            int64_t i = angle + (at - rotated) / 2;
            float c = op.rope.cos[i], s = op.inverse ? -op.rope.sin[i] : op.rope.sin[i];
            float turned = a * c - b * s;
            b = round_bf16(a * s + b * c);
            a = round_bf16(turned);
        }
        if (op.requant == Requant::fp4_16)
            requantise<16>(a, b, op.requant);
        else if (op.requant != Requant::none)
            requantise<32>(a, b, op.requant);
        if (inside) {
            x[at] = to_bf16(a);
            x[at + 1] = to_bf16(b);
        }
    }
}

constexpr int block = 256;
unsigned grid_of(int64_t warps) {
    return (unsigned)ceil_div<int64_t>(warps, block / warp);
}

}  // namespace

const void* any_kernel() {
    return (const void*)act_quant_kernel;
}

void launch(const ActQuant& op, cudaStream_t stream) {
    int64_t groups = (int64_t)op.n * (op.cols / 32);
    if (groups) act_quant_kernel<<<grid_of(groups), block, 0, stream>>>(op, groups);
}
void launch(const Swiglu& op, cudaStream_t stream) {
    int64_t groups = (int64_t)op.n * (op.cols / 32);
    if (groups) swiglu_kernel<<<grid_of(groups), block, 0, stream>>>(op, groups);
}
void launch(const EngramGather& op, cudaStream_t stream) {
    int64_t groups = (int64_t)op.n * op.columns * (op.dim / 32);
    if (groups) engram_gather_kernel<<<grid_of(groups), block, 0, stream>>>(op, groups);
}
void launch(const ScaleBf16& op, cudaStream_t stream) {
    if (op.count) scale_kernel<<<ceil_div(op.count, block), block, 0, stream>>>(op);
}
void launch(const RopeRequant& op, cudaStream_t stream) {
    int64_t vectors = (int64_t)op.n * op.heads;
    if (vectors) rope_requant_kernel<<<grid_of(vectors), block, 0, stream>>>(op);
}

}  // namespace sluice::cuda
