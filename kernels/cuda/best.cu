// Source of device.cuh. Best: the greedy choice of a token, so that two numbers go to the host and
// not the whole vocabulary.
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 1024, warps = block / warp;

// A key whose largest value belongs to the first of the best: the value as an integer in the order
// of floats (-0 equals 0, NaN is below all) above the complement of its place.
__device__ inline unsigned long long rank(float x, int place) {
    uint32_t bits = bits_of(x + 0.0f);
    uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
    if (x != x) order = 0;
    return static_cast<unsigned long long>(order) << 32 | uint32_t(~place);
}

__device__ inline unsigned long long larger(unsigned long long a, unsigned long long b) {
    return a > b ? a : b;
}

__global__ void __launch_bounds__(block) best_kernel(Best op) {
    __shared__ unsigned long long best_of[warps];
    __shared__ int odd_of[warps];
    start_after_previous();
    const float* x = op.x + int64_t(blockIdx.x) * op.count;
    int lane = threadIdx.x % warp, w = threadIdx.x / warp;
    unsigned long long best = 0;
    int odd = op.count;
#pragma unroll 8
    for (int i = threadIdx.x; i < op.count; i += block) {
        float v = x[i];
        best = larger(best, rank(v, i));
        if (!is_finite(v)) odd = min(odd, i);
    }
    for (int off = 16; off > 0; off >>= 1) {
        best = larger(best, __shfl_xor_sync(0xffffffffu, best, off));
        odd = min(odd, __shfl_xor_sync(0xffffffffu, odd, off));
    }
    if (lane == 0) {
        best_of[w] = best;
        odd_of[w] = odd;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < warps; ++i) {
        best = larger(best, best_of[i]);
        odd = min(odd, odd_of[i]);
    }
    op.place[2 * blockIdx.x] = int(~uint32_t(best));
    op.place[2 * blockIdx.x + 1] = odd < op.count ? odd : -1;
}

}  // namespace

bool launch(const Best& op, Lane lane) {
    if (op.n && op.count) launch_kernel(best_kernel, op.n, block, 0, lane, op);
    return true;
}

}  // namespace sluice::cuda
