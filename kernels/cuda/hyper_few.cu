// Source of hyper.cuh. HyperStep of few tokens, with the bits of hyper_step_kernel: a block of
// threads takes 32 values of the width, its eight warps three rows of fn each; one more block per
// token collapses. With coefficients of the step's own the last block to finish collapses, while a
// ninth warp runs Sinkhorn.
#include "kernels/cuda/hyper.cuh"

namespace sluice::cuda {
namespace {

constexpr int few = 8, warps = block / warp, rows_a_warp = rows_max / warps;
static_assert(rows_a_warp * warps == rows_max);

template <bool own>
constexpr int threads_of = own ? block + warp : block;

// For the last block to finish: the warps of a slice in turn, then slices ascending, to m. All
// threads call it.
template <int slices, int threads>
__device__ void add_slices(const HyperMix& op, const float* part, int per_slice, float* m) {
    __shared__ float slice[slices][sums];
    int parts = op.dim / warp;
    for (int i = threadIdx.x; i < slices * sums; i += threads) {
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
}

// Then Sinkhorn, with one warp.
__device__ void finish(const HyperMix& op, float* m, int64_t row) {
    if (threadIdx.x >= warp) return;
    float r = 1.0f / sqrtf(m[rows_max] / float(op.hc * op.dim) + op.eps);
    __syncwarp();
    if (int(threadIdx.x) < rows_of(op)) m[threadIdx.x] = m[threadIdx.x] * r;
    __syncwarp();
    sinkhorn(op, m, row);
}

// The first 256 threads wait for one another.
__device__ inline void meet() {
    asm volatile("bar.sync 1, %0;" ::"n"(block) : "memory");
}

// Collapse, norm and quantisation with the coefficients `pre`, of streams that other blocks have
// written: the additions of collapse_few(). For the first 256 threads.
__device__ void collapse_own(const HyperStep& op, const float* pre, int64_t row) {
    extern __shared__ __align__(8) bf16 collapsed[];  // [dim]
    __shared__ float shared[warps];
    int dim = op.mix.dim, hc = op.mix.hc;
    const bf16* streams = op.mix.h + row * hc * dim;
#pragma unroll 4
    for (int d = threadIdx.x * 4; d < dim; d += block * 4) {
        uint2 h[hc_max];
#pragma unroll
        for (int j = 0; j < hc_max; ++j)
            h[j] = j < hc ? __ldcg(reinterpret_cast<const uint2*>(streams + j * dim + d))
                          : make_uint2(0, 0);
        uint32_t packed[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            auto at = [&](int j) {
                uint32_t word = i / 2 ? h[j].y : h[j].x;
                return float_of(i % 2 ? word & 0xffff0000u : word << 16);
            };
            float acc = pre[0] * at(0);
#pragma unroll
            for (int j = 1; j < hc_max; ++j)
                if (j < hc) acc = acc + pre[j] * at(j);
            packed[i / 2] |= uint32_t(to_bf16(acc).bits) << (16 * (i % 2));
        }
        uint2 both = make_uint2(packed[0], packed[1]);
        *reinterpret_cast<uint2*>(collapsed + d) = both;
        *reinterpret_cast<uint2*>(op.collapse.x + row * dim + d) = both;
    }
    meet();
    float sum = 0.0f;
    for (int d = threadIdx.x; d < dim; d += block) {
        float v = to_float(collapsed[d]);
        sum = sum + v * v;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % warp == 0) shared[threadIdx.x / warp] = sum;
    meet();
    float total = 0.0f;
    for (int i = 0; i < warps; ++i) total = total + shared[i];
    float r = 1.0f / sqrtf(total / float(dim) + op.norm.eps);
    if (op.quant.group == 128)
        norm_quant<128>(op, collapsed, row, r);
    else
        norm_quant<32>(op, collapsed, row, r);
}

__device__ void finish_own(const HyperStep& step, float* m, int64_t row) {
    __shared__ float pre[hc_max];
    const HyperMix& op = step.mix;
    int t = threadIdx.x;
    float r = 1.0f / sqrtf(m[rows_max] / float(op.hc * op.dim) + op.eps);
    __syncthreads();
    if (t < rows_of(op)) m[t] = m[t] * r;
    if (t < op.hc) pre[t] = pre_of(op, m, t);
    __syncthreads();
    if (t >= block)
        sinkhorn(op, m, row);
    else
        collapse_own(step, pre, row);
}

template <int slices, bool own>
__device__ void mix_few(const HyperStep& step, Partials work, int per_slice) {
    const HyperMix& op = step.mix;
    __shared__ bool last;
    __shared__ float m[sums];
    int cols = op.hc * op.dim, rows = rows_of(op);
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
    const int parts = op.dim / warp;
    float* all = work.sum + row * parts * sums;
    float* mine = all + blockIdx.x * sums;
    if (!own || w < warps) {
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
#pragma unroll
        for (int i = 0; i < rows_a_warp; ++i) {
            float s = warp_sum(acc[i]);
            if (lane == 0) mine[w * rows_a_warp + i] = s;
        }
        if (w == 0) {
            square = warp_sum(square);
            if (lane == 0) mine[rows_max] = square;
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(work.ticket + row, 1u) == unsigned(parts) - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    add_slices<slices, threads_of<own>>(op, all, per_slice, m);
    if (threadIdx.x == 0) work.ticket[row] = 0;
    if constexpr (own)
        finish_own(step, m, row);
    else
        finish(op, m, row);
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
    if (op.quant.group == 128)
        norm_quant<128>(op, collapsed, row, r);
    else
        norm_quant<32>(op, collapsed, row, r);
}

template <int slices, bool own>
__global__ void __launch_bounds__(threads_of<own>)
    hyper_few_kernel(__grid_constant__ const HyperStep op, Partials work, int per_slice) {
    if (own || int(blockIdx.x) < op.mix.dim / warp)
        mix_few<slices, own>(op, work, per_slice);
    else
        collapse_few(op, blockIdx.y);
}

}  // namespace

size_t hyper_few_scratch_bytes(int n, int dim) {
    return size_t(n < few ? n : few) * ceil_div(dim, warp) * sums * sizeof(float);
}

bool launch_hyper_few(const HyperStep& op, Lane lane) {
    int dim = op.mix.dim, per_slice = ceil_div(dim, slices_of(dim));
    if (op.mix.n > few || per_slice > block || per_slice % warp || dim % (warp * 4)) return false;
    Partials work{reinterpret_cast<float*>(lane.scratch.memory), lane.scratch.tickets};
    with_slices(dim, [&](auto slices) {
        bool own = collapses_own(op);
        launch_kernel(own ? hyper_few_kernel<slices(), true> : hyper_few_kernel<slices(), false>,
                      dim3(dim / warp + (own ? 0 : 1), op.mix.n),
                      own ? threads_of<true> : threads_of<false>, dim * sizeof(bf16), lane, op,
                      work, per_slice);
    });
    return true;
}

}  // namespace sluice::cuda
