// Source of hyper.cuh. HyperStep of few tokens, with the bits of hyper_step_kernel: a block of
// threads takes 32 values of the width, its eight warps three rows of fn each; one more block per
// token collapses.
#include "kernels/cuda/hyper.cuh"

namespace sluice::cuda {
namespace {

constexpr int few = 8, warps = block / warp, rows_a_warp = rows_max / warps;
static_assert(rows_a_warp * warps == rows_max);

// For the last block to finish: the warps of a slice in turn, then slices ascending, then Sinkhorn.
__device__ void finish(const HyperMix& op, const float* part, int per_slice, int64_t row) {
    __shared__ float slice[slices][sums], m[sums];
    int parts = op.dim / warp, rows = (2 + op.hc) * op.hc;
    for (int i = threadIdx.x; i < slices * sums; i += block) {
        int s = i / sums, r = i % sums, first = s * per_slice / warp;
        float sum = 0.0f;
        for (int w = first; w < min(parts, first + per_slice / warp); ++w)
            sum = sum + __ldcg(part + int64_t(w) * sums + r);
        slice[s][r] = sum;
    }
    __syncthreads();
    if (threadIdx.x < sums) {
        float sum = 0.0f;
#pragma unroll
        for (int s = 0; s < slices; ++s) sum = sum + slice[s][threadIdx.x];
        m[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= warp) return;
    float r = 1.0f / sqrtf(m[rows_max] / float(op.hc * op.dim) + op.eps);
    __syncwarp();
    if (int(threadIdx.x) < rows) m[threadIdx.x] = m[threadIdx.x] * r;
    __syncwarp();
    sinkhorn(op, m, row);
}

__device__ void mix_few(const HyperStep& step, Partials work, int per_slice) {
    const HyperMix& op = step.mix;
    __shared__ bool last;
    int cols = op.hc * op.dim, rows = (2 + op.hc) * op.hc;
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, d = blockIdx.x * warp + lane;
    int64_t row = blockIdx.y;
    float f[rows_a_warp][hc_max];
#pragma unroll
    for (int i = 0; i < rows_a_warp; ++i)
#pragma unroll
        for (int j = 0; j < hc_max; ++j) {
            int r = w * rows_a_warp + i;
            f[i][j] = r < rows && j < op.hc
                          ? __ldg(op.fn.data + int64_t(r) * cols + int64_t(j) * op.dim + d)
                          : 0.0f;
        }
    start_after_previous();
    bf16* to = expanded_of(step);
    float values[1][hc_max], square = 0.0f, acc[rows_a_warp] = {};
    streams_of(step).at(row, d, values);
    const float(&x)[hc_max] = values[0];
#pragma unroll
    for (int j = 0; j < hc_max; ++j) {
        if (j >= op.hc) continue;
        if (to && w == 0) to[row * cols + int64_t(j) * op.dim + d] = to_bf16(x[j]);
#pragma unroll
        for (int i = 0; i < rows_a_warp; ++i) acc[i] = acc[i] + f[i][j] * x[j];
        square = square + x[j] * x[j];
    }
    const int parts = op.dim / warp;
    float* all = work.sum + row * parts * sums;
    float* mine = all + blockIdx.x * sums;
#pragma unroll
    for (int i = 0; i < rows_a_warp; ++i) {
        float s = warp_sum(acc[i]);
        if (lane == 0) mine[w * rows_a_warp + i] = s;
    }
    if (w == 0) {
        square = warp_sum(square);
        if (lane == 0) mine[rows_max] = square;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(work.ticket + row, 1u) == unsigned(parts) - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    finish(op, all, per_slice, row);
    if (threadIdx.x == 0) work.ticket[row] = 0;
}

// Collapse, norm and quantisation of one token; the sum has the order of rms_norm_kernel. Each
// thread takes two values per step, then four.
__device__ void collapse_few(const HyperStep& op, int64_t row) {
    extern __shared__ __align__(8) bf16 collapsed[];  // [dim]
    __shared__ float shared[warps];
    const Streams in = streams_of(op);
    int dim = op.mix.dim, hc = op.mix.hc;
    start_after_previous();
    const float* pre = op.collapse.pre + row * hc;
#pragma unroll 5
    for (int d = threadIdx.x * 2; d < dim; d += block * 2) {
        float h[2][hc_max];
        in.at(row, d, h);
        uint32_t both = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float acc = pre[0] * h[i][0];
#pragma unroll
            for (int j = 1; j < hc_max; ++j)
                if (j < hc) acc = acc + pre[j] * h[i][j];
            both |= uint32_t(to_bf16(acc).bits) << (16 * i);
        }
        *reinterpret_cast<uint32_t*>(collapsed + d) = both;
        *reinterpret_cast<uint32_t*>(op.collapse.x + row * dim + d) = both;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int d = threadIdx.x; d < dim; d += block) {
        float v = to_float(collapsed[d]);
        sum = sum + v * v;
    }
    sum = block_sum(sum, shared);
    float r = 1.0f / sqrtf(sum / float(dim) + op.norm.eps);
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
        store_four(y, op.quant.out, row * dim + d);
    }
}

__global__ void __launch_bounds__(block)
    hyper_few_kernel(__grid_constant__ const HyperStep op, Partials work, int per_slice) {
    if (int(blockIdx.x) < op.mix.dim / warp)
        mix_few(op, work, per_slice);
    else
        collapse_few(op, blockIdx.y);
}

}  // namespace

size_t hyper_few_scratch_bytes(int n, int dim) {
    return size_t(n < few ? n : few) * ceil_div(dim, warp) * sums * sizeof(float);
}

bool launch_hyper_few(const HyperStep& op, Lane lane) {
    int dim = op.mix.dim, per_slice = ceil_div(dim, slices);
    if (op.mix.n > few || per_slice > block || per_slice % warp || dim % (warp * 4)) return false;
    launch_kernel(hyper_few_kernel, dim3(dim / warp + 1, op.mix.n), block, dim * sizeof(bf16), lane,
                  op, Partials{reinterpret_cast<float*>(lane.scratch.memory), lane.scratch.tickets},
                  per_slice);
    return true;
}

}  // namespace sluice::cuda
