// HyperMix, and HyperStep: what lies between two sub-layers, in one launch.
//
// 24 dots over H * D values for every token: fn is 2 MB a sub-layer at V4.1's size, so K is cut
// into slices, a block each, and the last block of a token group to finish adds the slices in
// ascending order and runs Sinkhorn. In a step each slice first expands its part of the streams,
// and further blocks (one a token) expand for themselves what the collapse, the norm and the
// quantisation need: they wait for nobody.
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 256, slices = 32, tokens = 4, hc_max = 4;
constexpr int rows_max = (2 + hc_max) * hc_max, sums = rows_max + 1;

struct Partials {
    float* sum;        // [group][slice][token][sums]
    unsigned* ticket;  // [group], left at 0
};

// Reads the streams as they are after the step's combine and expand (either may be absent).
struct Streams {
    const bf16* h;
    const bf16* x;
    const bf16 *partial, *shared;  // x is their sum when partial is set
    const float *post, *comb;
    int hc, dim, k;

    __device__ float sub_layer(int64_t row, int d) const {
        if (!partial) return to_float(x[row * dim + d]);
        float sum = 0.0f;
        for (int i = 0; i < k; ++i) sum = sum + to_float(partial[(row * k + i) * dim + d]);
        return round_bf16(sum + to_float(shared[row * dim + d]));
    }
    // Value d of stream j, as a bf16 number.
    __device__ float at(int64_t row, int j, int d) const {
        const bf16* streams = h + row * hc * dim + d;
        if (!post) return to_float(streams[(int64_t)j * dim]);
        const float* c = comb + row * hc * hc;
        float s = c[j] * to_float(streams[0]);
        for (int i = 1; i < hc; ++i) s = s + c[i * hc + j] * to_float(streams[(int64_t)i * dim]);
        return round_bf16(post[row * hc + j] * sub_layer(row, d) + s);
    }
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

// The dots of one slice for one token, to `out` [sums]; writes the slice's part of the streams when
// `to` is set.
__device__ void slice_sums(const HyperMix& op, const Streams& in, bf16* to, int64_t row, int begin,
                           int end, float (*shared)[sums], float* out) {
    int cols = op.hc * op.dim, rows = (2 + op.hc) * op.hc;
    int lane = threadIdx.x % warp, w = threadIdx.x / warp;
    float acc[sums];
#pragma unroll
    for (int r = 0; r < sums; ++r) acc[r] = 0.0f;
    for (int k = begin + threadIdx.x; k < end; k += block) {
        float x = in.at(row, k / op.dim, k % op.dim);
        if (to) to[row * cols + k] = to_bf16(x);
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
        out[threadIdx.x] = s;
    }
    __syncthreads();
}

__device__ void mix_block(const HyperMix& op, const Streams& in, bf16* to, Partials work) {
    __shared__ float shared[block / warp][sums];
    __shared__ bool last;
    int cols = op.hc * op.dim, rows = (2 + op.hc) * op.hc;
    int per_slice = ceil_div(ceil_div(cols, slices), block) * block;
    int begin = min(cols, (int)blockIdx.x * per_slice), end = min(cols, begin + per_slice);
    int64_t first = (int64_t)blockIdx.y * tokens;
    float* mine = work.sum + ((int64_t)blockIdx.y * slices + blockIdx.x) * tokens * sums;
    for (int t = 0; t < tokens && first + t < op.n; ++t)
        slice_sums(op, in, to, first + t, begin, end, shared, mine + t * sums);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(work.ticket + blockIdx.y, 1u) == slices - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    const float* group = work.sum + (int64_t)blockIdx.y * slices * tokens * sums;
    if (threadIdx.x < tokens * sums && first + threadIdx.x / sums < op.n) {
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

__global__ void __launch_bounds__(block) hyper_mix_kernel(HyperMix op, Partials work) {
    Streams in{op.h, nullptr, nullptr, nullptr, nullptr, nullptr, op.hc, op.dim, 0};
    mix_block(op, in, nullptr, work);
}

// Collapse, norm and quantisation of one token; the sums in the order of rms_norm_kernel.
__device__ void collapse_block(const HyperStep& op, const Streams& in, int64_t row) {
    extern __shared__ bf16 collapsed[];  // [dim]
    __shared__ float shared[block / warp];
    int dim = op.mix.dim, hc = op.mix.hc, lane = threadIdx.x % warp;
    const float* pre = op.collapse.pre + row * hc;
    float sum = 0.0f;
    for (int d = threadIdx.x; d < dim; d += block) {
        float acc = pre[0] * in.at(row, 0, d);
        for (int j = 1; j < hc; ++j) acc = acc + pre[j] * in.at(row, j, d);
        bf16 x = to_bf16(acc);
        collapsed[d] = x;
        op.collapse.x[row * dim + d] = x;
        float v = to_float(x);
        sum = sum + v * v;
    }
    sum = block_sum(sum, shared);
    float r = 1.0f / sqrtf(sum / (float)dim + op.norm.eps);
    for (int d = threadIdx.x; d < dim; d += block) {  // dim % 32 == 0: whole warps
        float y = round_bf16(to_float(op.norm.w[d]) * (to_float(collapsed[d]) * r));
        op.norm.y[row * dim + d] = to_bf16(y);
        uint8_t code, scale;
        quantise_lane(y, &code, &scale);
        op.quant.out.codes[row * dim + d] = code;
        if (lane == 0) op.quant.out.scales[(row * dim + d) / 32] = scale;
    }
}

__global__ void __launch_bounds__(block)
    hyper_step_kernel(__grid_constant__ const HyperStep op, Partials work) {
    bool expands = op.expand.h != nullptr, combines = expands && op.combine.y != nullptr;
    Streams in{expands ? op.expand.h : op.mix.h,
               op.expand.x,
               combines ? op.combine.partial : nullptr,
               op.combine.shared,
               expands ? op.expand.post : nullptr,
               op.expand.comb,
               op.mix.hc,
               op.mix.dim,
               op.combine.k};
    if (blockIdx.x < slices)
        return mix_block(op.mix, in, expands ? const_cast<bf16*>(op.mix.h) : nullptr, work);
    int64_t row = (int64_t)blockIdx.y * tokens + (blockIdx.x - slices);
    if (row < op.mix.n) collapse_block(op, in, row);
}

}  // namespace

size_t hyper_workspace(int n) {
    size_t groups = ceil_div(n, tokens);
    return groups * slices * tokens * sums * sizeof(float);
}

void launch(const HyperMix& op, Workspace& work, cudaStream_t stream) {
    if (!op.n) return;
    unsigned groups = ceil_div(op.n, tokens);
    hyper_mix_kernel<<<dim3(slices, groups), block, 0, stream>>>(
        op, {(float*)work.memory, work.tickets});
}

// True if one launch can do it: the streams are written beside the old ones, and every part is
// there.
bool launch(const HyperStep& op, Workspace& work, cudaStream_t stream) {
    bool in_place = op.expand.h && op.expand.h == op.mix.h;
    if (in_place || op.mix.hc > hc_max || op.mix.dim % 32 || op.collapse.h != op.mix.h ||
        (op.combine.y && !op.expand.h))
        return false;
    if (!op.mix.n) return true;
    unsigned groups = ceil_div(op.mix.n, tokens);
    size_t shared = (size_t)op.mix.dim * sizeof(bf16);
    hyper_step_kernel<<<dim3(slices + tokens, groups), block, shared, stream>>>(
        op, {(float*)work.memory, work.tickets});
    return true;
}

}  // namespace sluice::cuda
