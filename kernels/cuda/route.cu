// Route: gate scores by the linear kernel, then one warp a token picks the k best.
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 128;

__global__ void route_kernel(Route op, const float* z) {
    extern __shared__ float shared[];  // [warps][2][experts]
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, experts = op.gate.rows;
    int64_t token = (int64_t)blockIdx.x * (block / warp) + w;
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
                biased[at] = float_of(0x7fc00000u);  // taken: compares false from here on
        }
        __syncwarp();
    }
    float weight = (op.k > 1 ? mine / (sum + 1e-20f) : mine) * op.scale;
    if (lane < op.k) op.weights[token * op.k + lane] = bad ? float_of(0x7fc00000u) : weight;
}

}  // namespace

size_t route_workspace(int n, int experts) {
    return (size_t)n * experts * sizeof(float);
}

void launch(const Route& op, Workspace& work, cudaStream_t stream) {
    if (!op.n) return;
    auto* z = (float*)work.memory;
    launch(LinearBf16{nullptr, z, op.gate, op.x, op.n}, stream);
    int warps = block / warp;
    size_t bytes = (size_t)warps * 2 * op.gate.rows * sizeof(float);
    route_kernel<<<ceil_div(op.n, warps), block, bytes, stream>>>(op, z);
}

}  // namespace sluice::cuda
