// Source of wide.cuh. HyperMix and HyperStep of many tokens: the additions of hyper.cu in the same
// order. fn is read once for a group of tokens, and the rest of a step is one pass over a token's
// streams.
//
// Mix: a block of threads owns one slice of the width, and a thread one place of it in all streams,
// so that its values of fn stay in registers while the tokens pass. The lanes' sums are exchanged
// as in the butterfly of warp_sum, with each lane keeping one of the sums in the end. A second
// kernel adds the slices and runs Sinkhorn.
#include "kernels/cuda/hyper.cuh"
#include "kernels/cuda/wide.cuh"

namespace sluice::cuda {
namespace {

constexpr int warps = block / warp, group = 64;

// Returns in lane l the sum over the warp of v[l].
__device__ inline float sum_of_lane(float (&v)[warp]) {
    int lane = threadIdx.x % warp;
#pragma unroll
    for (int off = warp / 2; off > 0; off >>= 1) {
        bool upper = lane & off;
#pragma unroll
        for (int i = 0; i < off; ++i) {
            float keep = upper ? v[i + off] : v[i], give = upper ? v[i] : v[i + off];
            v[i] = keep + __shfl_xor_sync(0xffffffffu, give, off);
        }
    }
    return v[0];
}

// to[token][slice][sums]
template <int slices>
__global__ void __launch_bounds__(block)
    mix_sums_kernel(__grid_constant__ const HyperMix op, float* to) {
    __shared__ float shared[warps][warps][warp];  // token, warp, sum
    int cols = op.hc * op.dim, per_slice = ceil_div(op.dim, slices), rows = rows_of(op);
    int d = blockIdx.x * per_slice + threadIdx.x, lane = threadIdx.x % warp, w = threadIdx.x / warp;
    bool inside = int(threadIdx.x) < per_slice && d < op.dim;
    float fn[rows_max][hc_max];
#pragma unroll
    for (int r = 0; r < rows_max; ++r)
#pragma unroll
        for (int j = 0; j < hc_max; ++j)
            fn[r][j] =
                inside && r < rows ? __ldg(op.fn.data + int64_t(r) * cols + j * op.dim + d) : 0.0f;
    int first = blockIdx.y * group, end = min(op.n, first + group);
    for (int base = first; base < end; base += warps) {
#pragma unroll 1
        for (int t = 0; t < warps && base + t < end; ++t) {
            const bf16* h = op.h + int64_t(base + t) * cols + d;
            float x[hc_max], v[warp] = {};
#pragma unroll
            for (int j = 0; j < hc_max; ++j) x[j] = inside ? to_float(h[j * op.dim]) : 0.0f;
#pragma unroll
            for (int j = 0; j < hc_max; ++j) {
#pragma unroll
                for (int r = 0; r < rows_max; ++r) v[r] = v[r] + fn[r][j] * x[j];
                v[rows_max] = v[rows_max] + x[j] * x[j];
            }
            shared[t][w][lane] = sum_of_lane(v);
        }
        __syncthreads();
        if (base + w < end && lane < sums) {
            float s = 0.0f;
#pragma unroll
            for (int i = 0; i < warps; ++i) s = s + shared[w][i][lane];
            to[(int64_t(base + w) * slices + blockIdx.x) * sums + lane] = s;
        }
        __syncthreads();
    }
}

// One warp per token.
template <int slices>
__global__ void __launch_bounds__(block)
    mix_finish_kernel(__grid_constant__ const HyperMix op, const float* from) {
    __shared__ float shared[warps][warp];
    int lane = threadIdx.x % warp, rows = rows_of(op);
    int64_t row = int64_t(blockIdx.x) * warps + threadIdx.x / warp;
    if (row >= op.n) return;
    float *m = shared[threadIdx.x / warp], s = 0.0f;
    if (lane < sums)
        for (int i = 0; i < slices; ++i) s = s + from[(row * slices + i) * sums + lane];
    m[lane] = s;
    __syncwarp();
    float r = 1.0f / sqrtf(m[rows_max] / float(op.hc * op.dim) + op.eps);
    __syncwarp();
    if (lane < rows) m[lane] = m[lane] * r;
    __syncwarp();
    sinkhorn(op, m, row);
}

// Norm and quantisation of the collapsed token. The sum has the order of rms_norm_kernel.
__device__ inline void finish_row(const HyperStep& op, const uint32_t* collapsed, int64_t row) {
    __shared__ float shared[warps];
    int dim = op.mix.dim;
    __syncthreads();
    const auto* x = reinterpret_cast<const bf16*>(collapsed);
    float sum = 0.0f;
    for (int d = threadIdx.x; d < dim; d += block) sum = sum + to_float(x[d]) * to_float(x[d]);
    sum = block_sum(sum, shared);
    float r = 1.0f / sqrtf(sum / float(dim) + op.norm.eps);
    if (op.quant.group == 128) return norm_quant<128>(op, x, row, r);
    for (int d = threadIdx.x; d < dim; d += block) {  // dim % 32 == 0: whole warps
        float y = round_bf16(to_float(op.norm.w[d]) * (to_float(x[d]) * r));
        op.norm.y[row * dim + d] = to_bf16(y);
        store_lane(y, op.quant.out, row * dim + d);
    }
}

// One block of threads per token: combine, expand, collapse, norm and quantisation. The streams may
// stay in place, because the thread that writes a value is the one that read it. A step whose
// coefficients are its own expands before the mix and collapses after it.
template <bool expands, bool collapses>
__global__ void __launch_bounds__(block) step_rows_kernel(__grid_constant__ const HyperStep op) {
    extern __shared__ __align__(8) uint32_t collapsed[];  // [dim / 2]
    Streams in = expands ? streams_of(op) : mixed_streams(op.mix);
    bf16* to = expands ? expanded_of(op) : nullptr;
    int dim = op.mix.dim;
    int64_t row = blockIdx.x;
    const float* pre = op.collapse.pre + row * hc_max;
    for (int pair = threadIdx.x; pair < dim / 2; pair += block) {
        float h[2][hc_max], x[2];
        in.at(row, 2 * pair, h);
        auto word = [](float a, float b) {
            return uint32_t(to_bf16(a).bits) | uint32_t(to_bf16(b).bits) << 16;
        };
        if (to)
#pragma unroll
            for (int j = 0; j < hc_max; ++j)
                *reinterpret_cast<uint32_t*>(to + (row * hc_max + j) * dim + 2 * pair) =
                    word(h[0][j], h[1][j]);
        if constexpr (collapses) {
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                x[t] = pre[0] * h[t][0];
#pragma unroll
                for (int j = 1; j < hc_max; ++j) x[t] = x[t] + pre[j] * h[t][j];
            }
            collapsed[pair] = word(x[0], x[1]);
            reinterpret_cast<uint32_t*>(op.collapse.x + row * dim)[pair] = collapsed[pair];
        }
    }
    if constexpr (collapses) finish_row(op, collapsed, row);
}

}  // namespace

bool launch_wide(const HyperStep& op, Lane lane) {
    size_t bytes = size_t(op.mix.dim) * sizeof(bf16);
    if (op.mix.hc != hc_max || op.mix.dim % op.quant.group || op.collapse.h != op.mix.h ||
        (op.combine.y && !op.expand.h) || bytes > 48 * 1024 ||
        ceil_div(op.mix.dim, slices_of(op.mix.dim)) > block)
        return false;
    if (!collapses_own(op)) {
        launch_plain(step_rows_kernel<true, true>, op.mix.n, block, bytes, lane, op);
        return launch_wide(op.mix, lane);
    }
    if (op.expand.h) launch_plain(step_rows_kernel<true, false>, op.mix.n, block, 0, lane, op);
    launch_wide(op.mix, lane);
    launch_plain(step_rows_kernel<false, true>, op.mix.n, block, bytes, lane, op);
    return true;
}

bool launch_wide(const HyperMix& op, Lane lane) {
    if (op.hc != hc_max || ceil_div(op.dim, slices_of(op.dim)) > block) return false;
    auto* sums_of = reinterpret_cast<float*>(lane.scratch.memory);
    with_slices(op.dim, [&](auto slices) {
        launch_plain(mix_sums_kernel<slices()>, dim3(slices(), ceil_div(op.n, group)), block, 0,
                     lane, op, sums_of);
        launch_plain(mix_finish_kernel<slices()>, ceil_div(op.n, warps), block, 0, lane, op,
                     sums_of);
    });
    return true;
}

}  // namespace sluice::cuda
