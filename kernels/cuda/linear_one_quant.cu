// Source of device.cuh. Chains that quantise the outputs of a linear, for one token row.
#include "kernels/cuda/linear_one.cuh"

namespace sluice::cuda {
namespace {

// 32 output rows, which is one quantisation group, or a quarter of one: two tiles.
template <int length>
__global__ void __launch_bounds__(threads_max)
    one_grouped_quant_kernel(__grid_constant__ const Plain op, QuantRows out, int slices_log2,
                             unsigned* tickets) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float sums[sums_max];
    int w = threadIdx.x / warp, slices = 1 << slices_log2, slice = w & (slices - 1);
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp;
    Slice<Kind::grouped, length> weights;
    weights.load(op.a, row0 + (w >> slices_log2) * 16, slice);
    start_after_previous();
    Vector from = op.x;
    from.values += int64_t(blockIdx.x * 2 / op.group_tiles) * op.group_bytes;
    Staged1 x = stage_one<Kind::grouped>(from, op.a.blocks, memory);
    __syncthreads();
    weights.run(x, slice, sums + w * 16);
    __syncthreads();
    if (w != 0) return;
    float v = round_bf16(slice_sum(sums + lane / 16 * slices * 16 + lane % 16, slices));
    op.a_bf16[row0 + lane] = to_bf16(v);
    store_part(v, out, row0 + lane, op.a_bf16, tickets ? tickets + row0 / 128 : nullptr);
}

// 32 rows of both matrices in turn, then SwiGLU and quantisation. A slice has rounds * length
// blocks.
template <int length, int rounds>
__global__ void __launch_bounds__(threads_max)
    one_gate_up_kernel(__grid_constant__ const Plain op, QuantRows out, const float* route_weight,
                       float limit, int slices_log2, unsigned* tickets) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float sums[2][sums_max];
    int w = threadIdx.x / warp, slices = 1 << slices_log2, slice = w & (slices - 1);
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp, row = row0 + (w >> slices_log2) * 16;
    Slice<Kind::fp8, length> weights;
    weights.load(op.a, row, slice * rounds);
    start_after_previous();
    Staged1 x = stage_one<Kind::fp8>(op.x, op.a.blocks, memory);
    __syncthreads();
    Pair sum;
#pragma unroll
    for (int i = 0; i < 2 * rounds; ++i) {
        int piece = slice * rounds + i % rounds;
        if (i > 0) weights.load(i < rounds ? op.a : op.b, row, piece);
        weights.add(x, piece, sum);
        if (i % rounds < rounds - 1) continue;
        sum.store(sums[i / rounds] + w * 16);
        sum = {};
    }
    __syncthreads();
    if (w != 0) return;
    int at = lane / 16 * slices * 16 + lane % 16;
    float g = round_bf16(slice_sum(sums[0] + at, slices));
    float u = round_bf16(slice_sum(sums[1] + at, slices));
    store_part(swiglu_value(g, u, route_weight, limit), out, row0 + lane, op.a_bf16,
               tickets ? tickets + row0 / 128 : nullptr);
}

}  // namespace

bool launch_one(const GroupedOutputQuant& op, Lane lane) {
    Job job = job_of(op.output);
    Launch<Kind::grouped> plan(job);
    if (job.rows % 32 || job.group_rows % 32) return false;
    return plan.dispatch([&](auto length) {
        launch_kernel(one_grouped_quant_kernel<length()>, job.rows / 32, 2 * plan.slices * warp,
                      plan.shared, lane, plain_of<Kind::grouped>(job), op.quant.out,
                      plan.slices_log2, tickets_of(op.quant.group, lane));
    });
}

bool launch_one(const GateUp& op, Lane lane) {
    Job gate = job_of(op.gate), up = job_of(op.up);
    Launch<Kind::fp8> plan(gate);
    if (gate.rows % 32) return false;
    Plain both = plain_of<Kind::fp8>(gate);
    both.b = matrix_of<Kind::fp8>(up);
    auto start = [&](auto length, auto rounds) {
        launch_kernel(one_gate_up_kernel<length(), rounds()>, gate.rows / 32,
                      2 * plan.slices * warp, plan.shared, lane, both, op.swiglu.out,
                      op.swiglu.weights, op.swiglu.limit, plan.slices_log2,
                      tickets_of(op.swiglu.group, lane));
    };
    constexpr std::integral_constant<int, 1> once{};
    constexpr std::integral_constant<int, 2> twice{};
    if (plan.length == 14) return start(std::integral_constant<int, 7>{}, twice), true;
    return plan.dispatch([&](auto length) { start(length, once); });
}

}  // namespace sluice::cuda
