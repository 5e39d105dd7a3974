// Source of device.cuh. ActQuant, RopeRequant, Swiglu, ScaleBf16, EngramGather: element-wise work
// in groups of 32 or 16.
#include "kernels/cuda/rope.cuh"

namespace sluice::cuda {
namespace {

__global__ void act_quant_kernel(ActQuant op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 32 + threadIdx.x % warp;
    store_lane(to_float(op.x[at]), op.out, at);
}

__global__ void swiglu_kernel(Swiglu op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int64_t at = group * 32 + threadIdx.x % warp;
    const float* weight = op.weights ? op.weights + at / op.cols : nullptr;
    store_lane(swiglu_value(to_float(op.gate[at]), to_float(op.up[at]), weight, op.limit), op.out,
               at);
}

__global__ void engram_gather_kernel(EngramGather op, int64_t groups) {
    start_after_previous();
    int64_t group = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (group >= groups) return;
    int per_row = op.dim / 32, lane = threadIdx.x % warp;
    int64_t row = op.index[group / per_row];
    int block = group % per_row;
    float value = e4m3_to_float(op.codes[row * op.dim + block * 32 + lane]) *
                  e8m0_to_float(op.scales[row * per_row + block]);
    store_lane(round_bf16(value), op.out, group * 32 + lane);
}

__global__ void scale_kernel(ScaleBf16 op) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < op.count) op.x[i] = to_bf16(to_float(op.x[i]) * op.scale);
}

// One warp per vector, two neighbouring elements per lane: 64 elements per step.
__global__ void rope_requant_kernel(RopeRequant op) {
    start_after_previous();
    int64_t vector = int64_t(blockIdx.x) * (blockDim.x / warp) + threadIdx.x / warp;
    if (vector >= int64_t(op.n) * op.heads) return;
    Turn turn =
        turn_of(op.rope, op.position + int(vector / op.heads) * op.stride, op.dim, op.inverse);
    bf16* x = op.x + vector * op.dim;
    for (int base = 0; base < op.dim; base += 64) {
        int at = base + 2 * (threadIdx.x % warp);
        bool inside = at < op.dim;
        float a = inside ? to_float(x[at]) : 0.0f, b = inside ? to_float(x[at + 1]) : 0.0f;
        turn.apply(at, a, b);
        requantise(a, b, op.requant);
        if (inside) {
            x[at] = to_bf16(a);
            x[at + 1] = to_bf16(b);
        }
    }
}

constexpr int block = 256;
unsigned grid_of(int64_t warps) {
    return unsigned(ceil_div<int64_t>(warps, block / warp));
}

}  // namespace

const void* any_kernel() {
    return reinterpret_cast<const void*>(act_quant_kernel);
}

void launch(const ActQuant& op, Lane lane) {
    int64_t groups = int64_t(op.n) * (op.cols / 32);
    if (groups) launch_kernel(act_quant_kernel, grid_of(groups), block, 0, lane, op, groups);
}
void launch(const Swiglu& op, Lane lane) {
    int64_t groups = int64_t(op.n) * (op.cols / 32);
    if (groups) launch_kernel(swiglu_kernel, grid_of(groups), block, 0, lane, op, groups);
}
void launch(const EngramGather& op, Lane lane) {
    int64_t groups = int64_t(op.n) * op.columns * (op.dim / 32);
    if (groups) launch_kernel(engram_gather_kernel, grid_of(groups), block, 0, lane, op, groups);
}
void launch(const ScaleBf16& op, Lane lane) {
    if (op.count) launch_kernel(scale_kernel, ceil_div(op.count, block), block, 0, lane, op);
}
void launch(const RopeRequant& op, Lane lane) {
    int64_t vectors = int64_t(op.n) * op.heads;
    if (vectors) launch_kernel(rope_requant_kernel, grid_of(vectors), block, 0, lane, op);
}

}  // namespace sluice::cuda
