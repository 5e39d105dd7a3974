// Source of device.cuh. LatentFinish: two short vectors per token, a block of threads each.
#include "kernels/cuda/rope.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 256;

// RmsNorm of row `row`, with sums in the order of rms_norm_kernel, to `y` in shared memory as bf16
// numbers.
__device__ void norm_row(const RmsNorm& op, int64_t row, float* shared, float* y) {
    const bf16* x = op.x + row * op.cols;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < op.cols; k += block) {
        float v = to_float(x[k]);
        sum = sum + v * v;
    }
    sum = block_sum(sum, shared);
    float r = 1.0f / sqrtf(sum / float(op.cols) + op.eps);
    for (int k = threadIdx.x; k < op.cols; k += block)
        y[k] = round_bf16(to_float(op.w[k]) * (to_float(x[k]) * r));
    __syncthreads();
}

__global__ void __launch_bounds__(block)
    latent_finish_kernel(__grid_constant__ const LatentFinish op) {
    start_after_previous();
    extern __shared__ float y[];
    __shared__ float shared[block / warp];
    int64_t row = blockIdx.x;
    int lane = threadIdx.x % warp;
    if (blockIdx.y == 0) {
        int cols = op.query.cols;
        norm_row(op.query, row, shared, y);
        if (op.query_quant.group == 128) {
            for (int k = threadIdx.x * 4; k < cols; k += block * 4) {  // whole warps here too
                const float v[4] = {y[k], y[k + 1], y[k + 2], y[k + 3]};
#pragma unroll
                for (int i = 0; i < 4; ++i) op.query.y[row * cols + k + i] = to_bf16(v[i]);
                store_four<128>(v, op.query_quant.out, row * cols + k);
            }
            return;
        }
        for (int k = threadIdx.x; k < cols; k += block) {  // cols % 32 == 0: whole warps
            op.query.y[row * cols + k] = to_bf16(y[k]);
            store_lane(y[k], op.query_quant.out, row * cols + k);
        }
        return;
    }
    const RopeRequant& place = op.key_place;
    int dim = op.key.cols;
    norm_row(op.key, row, shared, y);
    Turn turn = turn_of(place.rope, place.position + int(row) * place.stride, dim, place.inverse);
    bf16* buffer = op.store.buffer
                       ? op.store.buffer + (op.store.position + row) % op.store.window * dim
                       : nullptr;
    for (int base = threadIdx.x / warp * 64; base < dim; base += block / warp * 64) {
        int at = base + 2 * lane;
        bool inside = at < dim;
        float a = inside ? y[at] : 0.0f, b = inside ? y[at + 1] : 0.0f;
        turn.apply(at, a, b);
        requantise(a, b, place.requant, at < dim - place.kept);
        if (!inside) continue;
        bf16 pair[2] = {to_bf16(a), to_bf16(b)};
        for (int i = 0; i < 2; ++i) {
            op.key.y[row * dim + at + i] = pair[i];
            if (buffer) buffer[at + i] = pair[i];
        }
    }
}

}  // namespace

// True if one launch can do it: one head per key, and no two rows of the buffer that coincide.
bool launch(const LatentFinish& op, Lane lane) {
    if (op.query.cols % op.query_quant.group || op.key.cols % 2 || op.key_place.heads != 1 ||
        op.query.n != op.key.n || (op.store.buffer && op.store.n > op.store.window))
        return false;
    int cols = op.query.cols > op.key.cols ? op.query.cols : op.key.cols;
    if (op.query.n)
        launch_kernel(latent_finish_kernel, dim3(op.query.n, 2), block, cols * sizeof(float), lane,
                      op);
    return true;
}

}  // namespace sluice::cuda
