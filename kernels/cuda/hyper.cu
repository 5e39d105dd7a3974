// HyperMix: 24 dots over H * D values for every token, then Sinkhorn. fn is 2 MB a sub-layer at
// V4.1's size, so K is cut into slices, a block each, and the last block of a token group to finish
// adds the slices in ascending order.
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 256, slices = 32, tokens = 4, hc_max = 4;
constexpr int rows_max = (2 + hc_max) * hc_max, sums = rows_max + 1;

// partial[group][slice][token][sums]; ticket[group] counts finished slices and is left at 0.
struct Partials {
    float* sum;
    unsigned* ticket;
};

__device__ void sinkhorn(const HyperMix& op, const float* m, int64_t row) {
    int hc = op.hc;
    float c[hc_max][hc_max];
    for (int j = 0; j < hc; ++j) {
        op.pre[row * hc + j] = sigmoid_f32(m[j] * op.scale[0] + op.base[j]) + op.hc_eps;
        op.post[row * hc + j] = 2.0f * sigmoid_f32(m[hc + j] * op.scale[1] + op.base[hc + j]);
    }
    for (int j = 0; j < hc; ++j) {
        float most = -INFINITY, sum = 0.0f;
        for (int k = 0; k < hc; ++k) {
            int i = 2 * hc + j * hc + k;
            c[j][k] = m[i] * op.scale[2] + op.base[i];
            most = c[j][k] > most ? c[j][k] : most;
        }
        for (int k = 0; k < hc; ++k) {
            c[j][k] = exp_f32(c[j][k] - most);
            sum = sum + c[j][k];
        }
        for (int k = 0; k < hc; ++k) c[j][k] = c[j][k] / sum + op.hc_eps;
    }
    for (int i = 0; i < op.iterations; ++i) {
        if (i > 0)
            for (int j = 0; j < hc; ++j) {
                float sum = 0.0f;
                for (int k = 0; k < hc; ++k) sum = sum + c[j][k];
                for (int k = 0; k < hc; ++k) c[j][k] = c[j][k] / (sum + op.hc_eps);
            }
        for (int k = 0; k < hc; ++k) {
            float sum = 0.0f;
            for (int j = 0; j < hc; ++j) sum = sum + c[j][k];
            for (int j = 0; j < hc; ++j) c[j][k] = c[j][k] / (sum + op.hc_eps);
        }
    }
    for (int j = 0; j < hc; ++j)
        for (int k = 0; k < hc; ++k) op.comb[(row * hc + j) * hc + k] = c[j][k];
}

__global__ void __launch_bounds__(block) hyper_mix_kernel(HyperMix op, Partials work) {
    __shared__ float shared[block / warp][sums];
    __shared__ bool last;
    int cols = op.hc * op.dim, rows = (2 + op.hc) * op.hc;
    int per_slice = ceil_div(ceil_div(cols, slices), block) * block;
    int begin = blockIdx.x * per_slice, end = min(cols, begin + per_slice);
    int lane = threadIdx.x % warp, w = threadIdx.x / warp;
    int64_t first = (int64_t)blockIdx.y * tokens;
    float* mine = work.sum + ((int64_t)blockIdx.y * slices + blockIdx.x) * tokens * sums;
    for (int t = 0; t < tokens && first + t < op.n; ++t) {
        const bf16* u = op.h + (first + t) * cols;
        float acc[sums];
#pragma unroll
        for (int r = 0; r < sums; ++r) acc[r] = 0.0f;
        for (int k = begin + threadIdx.x; k < end; k += block) {
            float x = to_float(u[k]);
#pragma unroll
            for (int r = 0; r < rows_max; ++r)
                if (r < rows) acc[r] = acc[r] + op.fn.data[(int64_t)r * cols + k] * x;
            acc[rows_max] = acc[rows_max] + x * x;
        }
#pragma unroll
        for (int r = 0; r < sums; ++r) {
            float s = warp_sum(acc[r]);
            if (lane == 0) shared[w][r] = s;
        }
        __syncthreads();
        if (threadIdx.x < sums) {
            float s = 0.0f;
            for (int i = 0; i < block / warp; ++i) s = s + shared[i][threadIdx.x];
            mine[t * sums + threadIdx.x] = s;
        }
        __syncthreads();
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(work.ticket + blockIdx.y, 1u) == slices - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    const float* group = work.sum + (int64_t)blockIdx.y * slices * tokens * sums;
    if (threadIdx.x < tokens * sums) {
        float s = 0.0f;
        for (int i = 0; i < slices; ++i) s = s + __ldcg(group + i * tokens * sums + threadIdx.x);
        shared[threadIdx.x / sums][threadIdx.x % sums] = s;
    }
    __syncthreads();
    if (threadIdx.x < tokens && first + threadIdx.x < op.n) {
        float* m = shared[threadIdx.x];
        float r = 1.0f / sqrtf(m[rows_max] / (float)cols + op.eps);
        for (int i = 0; i < rows; ++i) m[i] = m[i] * r;
        sinkhorn(op, m, first + threadIdx.x);
    }
    if (threadIdx.x == 0) work.ticket[blockIdx.y] = 0;
}

}  // namespace

size_t hyper_workspace(int n) {
    size_t groups = ceil_div(n, tokens);
    return groups * slices * tokens * sums * sizeof(float);
}

void launch(const HyperMix& op, Workspace& work, cudaStream_t stream) {
    if (!op.n) return;
    unsigned groups = ceil_div(op.n, tokens);
    Partials partials{(float*)work.memory, work.tickets};
    hyper_mix_kernel<<<dim3(slices, groups), block, 0, stream>>>(op, partials);
}

}  // namespace sluice::cuda
