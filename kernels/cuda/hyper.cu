// Source of device.cuh. HyperMix, and HyperStep: what lies between two sub-layers, in one launch.
//
// Every token needs 24 dots over H * D values. fn has 2 MB per sub-layer at V4.1's size, so K is
// cut into slices with a block of threads each. The last block of a token group to finish adds the
// slices in ascending order and runs Sinkhorn. In a step each slice first expands its part of the
// streams. One further block per token expands for itself what the collapse, the norm and the
// quantisation need, and so waits for nobody; with coefficients of the step's own it is a launch of
// its own.
#include "kernels/cuda/hyper.cuh"
#include "kernels/cuda/wide.cuh"

namespace sluice::cuda {
namespace {

constexpr int few = 32;  // tokens; hyper_wide.cu takes more

// The dots of one slice of the width for one token, to `out` [sums]. Also writes the slice's part
// of the streams when `to` is set.
__device__ void slice_sums(const HyperMix& op, const Streams& in, bf16* to, int64_t row, int begin,
                           int end, float (*shared)[sums], float* out) {
    int cols = op.hc * op.dim, rows = rows_of(op);
    int lane = threadIdx.x % warp, w = threadIdx.x / warp;
    float acc[sums];
#pragma unroll
    for (int r = 0; r < sums; ++r) acc[r] = 0.0f;
    for (int d = begin + threadIdx.x; d < end; d += block) {
        float values[1][hc_max];
        in.at(row, d, values);
        const float(&x)[hc_max] = values[0];
#pragma unroll
        for (int j = 0; j < hc_max; ++j) {
            if (j >= op.hc) continue;
            int64_t k = int64_t(j) * op.dim + d;
            if (to) to[row * cols + k] = to_bf16(x[j]);
#pragma unroll
            for (int r = 0; r < rows_max; ++r)
                if (r < rows) acc[r] = acc[r] + __ldg(op.fn.data + int64_t(r) * cols + k) * x[j];
            acc[rows_max] = acc[rows_max] + x[j] * x[j];
        }
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
        out[threadIdx.x] = s;
    }
    __syncthreads();
}

template <int slices>
__device__ void mix_block(const HyperMix& op, const Streams& in, bf16* to, Partials work) {
    __shared__ float shared[block / warp][sums];
    __shared__ bool last;
    int cols = op.hc * op.dim, rows = rows_of(op);
    int per_slice = ceil_div(op.dim, slices);
    int begin = min(op.dim, int(blockIdx.x) * per_slice), end = min(op.dim, begin + per_slice);
    int64_t first = int64_t(blockIdx.y) * tokens;
    float* mine = work.sum + (int64_t(blockIdx.y) * slices + blockIdx.x) * tokens * sums;
    for (int t = 0; t < tokens && first + t < op.n; ++t)
        slice_sums(op, in, to, first + t, begin, end, shared, mine + t * sums);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(work.ticket + blockIdx.y, 1u) == slices - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    const float* group = work.sum + int64_t(blockIdx.y) * slices * tokens * sums;
    if (threadIdx.x < tokens * sums && first + threadIdx.x / sums < op.n) {
        float part[slices], s = 0.0f;
#pragma unroll
        for (int i = 0; i < slices; ++i) part[i] = __ldcg(group + i * tokens * sums + threadIdx.x);
#pragma unroll
        for (int i = 0; i < slices; ++i) s = s + part[i];
        shared[threadIdx.x / sums][threadIdx.x % sums] = s;
    }
    __syncthreads();
    int w = threadIdx.x / warp, lane = threadIdx.x % warp;
    if (w < tokens && first + w < op.n) {
        float* m = shared[w];
        float r = 1.0f / sqrtf(m[rows_max] / float(cols) + op.eps);
        __syncwarp();
        if (lane < rows) m[lane] = m[lane] * r;
        __syncwarp();
        sinkhorn(op, m, first + w);
    }
    if (threadIdx.x == 0) work.ticket[blockIdx.y] = 0;
}

template <int slices>
__global__ void __launch_bounds__(block) hyper_mix_kernel(HyperMix op, Partials work) {
    start_after_previous();
    mix_block<slices>(op, mixed_streams(op), nullptr, work);
}

// Collapse, norm and quantisation of one token; the sums have the order of rms_norm_kernel.
__device__ void collapse_block(const HyperStep& op, const Streams& in, int64_t row) {
    extern __shared__ __align__(8) bf16 collapsed[];  // [dim]
    __shared__ float shared[block / warp];
    int dim = op.mix.dim, hc = op.mix.hc, lane = threadIdx.x % warp;
    const float* pre = op.collapse.pre + row * hc;
    float sum = 0.0f;
#pragma unroll 4
    for (int d = threadIdx.x; d < dim; d += block) {
        float values[1][hc_max];
        in.at(row, d, values);
        const float(&h)[hc_max] = values[0];
        float acc = pre[0] * h[0];
#pragma unroll
        for (int j = 1; j < hc_max; ++j)
            if (j < hc) acc = acc + pre[j] * h[j];
        bf16 x = to_bf16(acc);
        collapsed[d] = x;
        op.collapse.x[row * dim + d] = x;
        float v = to_float(x);
        sum = sum + v * v;
    }
    sum = block_sum(sum, shared);
    float r = 1.0f / sqrtf(sum / float(dim) + op.norm.eps);
    if (op.quant.group == 128) return norm_quant<128>(op, collapsed, row, r);
    for (int d = threadIdx.x; d < dim; d += block) {  // dim % 32 == 0: whole warps
        float y = round_bf16(to_float(op.norm.w[d]) * (to_float(collapsed[d]) * r));
        op.norm.y[row * dim + d] = to_bf16(y);
        uint8_t code, scale;
        quantise_lane(y, &code, &scale);
        op.quant.out.codes[row * dim + d] = code;
        if (lane == 0) op.quant.out.scales[(row * dim + d) / 32] = scale;
    }
}

// Without the blocks that collapse where the step's own coefficients do.
template <int slices>
__global__ void __launch_bounds__(block)
    hyper_step_kernel(__grid_constant__ const HyperStep op, Partials work) {
    start_after_previous();
    Streams in = streams_of(op);
    if (blockIdx.x < slices) return mix_block<slices>(op.mix, in, expanded_of(op), work);
    int64_t row = int64_t(blockIdx.y) * tokens + (blockIdx.x - slices);
    if (row < op.mix.n) collapse_block(op, in, row);
}

__global__ void __launch_bounds__(block)
    hyper_collapse_kernel(__grid_constant__ const HyperStep op) {
    start_after_previous();
    collapse_block(op, mixed_streams(op.mix), blockIdx.x);
}

Partials partials_of(const Lane& lane) {
    return {reinterpret_cast<float*>(lane.scratch.memory), lane.scratch.tickets};
}

}  // namespace

size_t hyper_scratch_bytes(int n, int dim) {
    size_t groups = ceil_div(n, tokens);
    size_t many = groups * slices_of(dim) * tokens * sums * sizeof(float),
           few = hyper_few_scratch_bytes(n, dim);
    return many > few ? many : few;
}

void launch(const HyperMix& op, Lane lane) {
    if (!op.n || (op.n > few && launch_wide(op, lane))) return;
    with_slices(op.dim, [&](auto slices) {
        launch_kernel(hyper_mix_kernel<slices()>, dim3(slices(), ceil_div(op.n, tokens)), block, 0,
                      lane, op, partials_of(lane));
    });
}

// True if one launch can do it, or two with coefficients of its own: the streams are written beside
// the old ones, or there are many tokens, and every part is there.
bool launch(const HyperStep& op, Lane lane) {
    if (op.mix.n > few && launch_wide(op, lane)) return true;
    bool in_place = op.expand.h && op.expand.h == op.mix.h, own = collapses_own(op);
    if (in_place || op.mix.hc > hc_max || op.mix.dim % op.quant.group ||
        op.collapse.h != op.mix.h || (op.combine.y && !op.expand.h))
        return false;
    if (!op.mix.n || launch_hyper_few(op, lane)) return true;
    size_t shared = size_t(op.mix.dim) * sizeof(bf16);
    with_slices(op.mix.dim, [&](auto slices) {
        dim3 grid(slices() + (own ? 0 : tokens), ceil_div(op.mix.n, tokens));
        launch_kernel(hyper_step_kernel<slices()>, grid, block, shared, lane, op,
                      partials_of(lane));
    });
    if (own) launch_kernel(hyper_collapse_kernel, op.mix.n, block, shared, lane, op);
    return true;
}

}  // namespace sluice::cuda
