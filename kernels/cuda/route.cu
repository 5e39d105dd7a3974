// Source of device.cuh. Route: the linear kernel computes the gate's scores, then one warp per
// token picks the k best, or weighs those that are given.
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 128;

__device__ inline float weight_of(const Route& op, float score, float sum) {
    return (op.k > 1 || op.normalise_one ? score / (sum + op.sum_floor) : score) * op.scale;
}

__global__ void route_kernel(Route op, const float* z) {
    extern __shared__ float shared[];  // [warps][2][experts]
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, experts = op.gate.rows;
    int64_t token = int64_t(blockIdx.x) * (block / warp) + w;
    if (token >= op.n) return;
    float *score = shared + w * 2 * experts, *biased = score + experts;
    bool bad = false;
    for (int e = lane; e < experts; e += warp) {
        score[e] = sqrtf(softplus_f32(z[token * experts + e]));
        biased[e] = score[e] + op.bias[e];
        bad |= biased[e] != biased[e];
    }
    bad = __any_sync(0xffffffffu, bad);
    __syncwarp();
    float sum = 0.0f, mine = 0.0f;
    for (int i = 0; i < op.k; ++i) {
        float best = -INFINITY;
        int at = experts;
        for (int e = lane; e < experts; e += warp)
            if (biased[e] > best || (at == experts && biased[e] == best)) {
                best = biased[e];
                at = e;
            }
#pragma unroll
        for (int off = 16; off > 0; off >>= 1) {
            float other = __shfl_xor_sync(0xffffffffu, best, off);
            int other_at = __shfl_xor_sync(0xffffffffu, at, off);
            if (other_at < experts &&
                (at == experts || other > best || (other == best && other_at < at))) {
                best = other;
                at = other_at;
            }
        }
        float s = at < experts ? score[at] : 0.0f;
        sum = sum + s;
        if (lane == i) mine = s;
        if (lane == 0) {
            op.ids[token * op.k + i] = bad ? -1 : at;
            if (at < experts)
                // Taken: compares false from here on.
                biased[at] = float_of(0x7fc00000u);
        }
        __syncwarp();
    }
    if (lane < op.k)
        op.weights[token * op.k + lane] = bad ? float_of(0x7fc00000u) : weight_of(op, mine, sum);
}

// The same for up to 512 experts: a lane holds its scores in registers, as integers in the order of
// floats, and the maximum over the warp is one instruction where the device has it.
constexpr int held = 16;

__device__ inline unsigned warp_max_of(unsigned x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, x);
#else
#pragma unroll
    for (int off = 16; off > 0; off >>= 1) x = max(x, __shfl_xor_sync(0xffffffffu, x, off));
    return x;
#endif
}

__global__ void __launch_bounds__(block) route_held_kernel(Route op, const float* z) {
    int lane = threadIdx.x % warp, experts = op.gate.rows;
    int64_t token = int64_t(blockIdx.x) * (block / warp) + threadIdx.x / warp;
    float bias[held], score[held];
#pragma unroll
    for (int i = 0; i < held; ++i)
        bias[i] = lane + i * warp < experts ? __ldg(op.bias + lane + i * warp) : 0.0f;
    start_after_previous();
    if (token >= op.n) return;
#pragma unroll
    for (int i = 0; i < held; ++i)
        score[i] = lane + i * warp < experts ? z[token * experts + lane + i * warp] : 0.0f;
    unsigned key[held];  // 0: no expert, or taken
    bool bad = false;
#pragma unroll
    for (int i = 0; i < held; ++i) {
        score[i] = sqrtf(softplus_f32(score[i]));
        float biased = score[i] + bias[i] + 0.0f;  // -0 and 0 are equal
        bool inside = lane + i * warp < experts;
        bad |= inside && biased != biased;
        uint32_t bits = bits_of(biased);
        key[i] = inside ? (bits >> 31 ? ~bits : bits | 0x80000000u) : 0;
    }
    bad = __any_sync(0xffffffffu, bad);
    float sum = 0.0f, mine = 0.0f;
    for (int pick = 0; pick < op.k; ++pick) {
        unsigned best = 0;
        int at = 0;
        float s = 0.0f;
#pragma unroll
        for (int i = held - 1; i >= 0; --i)
            if (key[i] >= best) {
                best = key[i];
                at = i;
                s = score[i];
            }
        unsigned top = warp_max_of(best);
        // The lowest expert among equals.
        unsigned order = best == top ? ~unsigned(at * warp + lane) : 0;
        unsigned chosen = ~warp_max_of(order);
        int owner = int(chosen % warp);
        s = __shfl_sync(0xffffffffu, s, owner);
        sum = sum + s;
        if (lane == pick) mine = s;
#pragma unroll
        for (int i = 0; i < held; ++i)
            if (lane == owner && i == at) key[i] = 0;
        if (lane == 0) op.ids[token * op.k + pick] = bad ? -1 : int(chosen);
    }
    if (lane < op.k)
        op.weights[token * op.k + lane] = bad ? float_of(0x7fc00000u) : weight_of(op, mine, sum);
}

// The experts are given: one warp per token scores them.
__global__ void __launch_bounds__(block) route_given_kernel(Route op, const float* z) {
    start_after_previous();
    int lane = threadIdx.x % warp, experts = op.gate.rows;
    int64_t token = int64_t(blockIdx.x) * (block / warp) + threadIdx.x / warp;
    if (token >= op.n) return;
    const float* mine = z + token * experts;
    bool bad = false;
    for (int e = lane; e < experts; e += warp) bad |= mine[e] != mine[e];
    bad = __any_sync(0xffffffffu, bad);
    int32_t* id = op.ids + token * op.k + lane;
    float score = lane < op.k ? sqrtf(softplus_f32(mine[*id])) : 0.0f, sum = 0.0f;
    for (int i = 0; i < op.k; ++i) sum = sum + __shfl_sync(0xffffffffu, score, i);
    if (lane >= op.k) return;
    op.weights[token * op.k + lane] = bad ? float_of(0x7fc00000u) : weight_of(op, score, sum);
    if (bad) *id = -1;
}

}  // namespace

size_t route_scratch_bytes(int n, int experts) {
    return size_t(n) * experts * sizeof(float);
}

void launch(const Route& op, Lane lane) {
    if (!op.n) return;
    auto* z = reinterpret_cast<float*>(lane.scratch.memory);
    launch(LinearBf16{nullptr, z, op.gate, op.x, op.n}, lane);
    int warps = block / warp;
    if (op.given)
        return launch_kernel(route_given_kernel, ceil_div(op.n, warps), block, 0, lane, op, z);
    if (op.gate.rows <= held * warp && op.k <= op.gate.rows)
        return launch_kernel(route_held_kernel, ceil_div(op.n, warps), block, 0, lane, op, z);
    size_t bytes = size_t(warps) * 2 * op.gate.rows * sizeof(float);
    launch_plain(route_kernel, ceil_div(op.n, warps), block, bytes, lane, op, z);
}

}  // namespace sluice::cuda
