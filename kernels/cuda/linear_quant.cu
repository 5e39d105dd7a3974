// Source of device.cuh. Chains that quantise the outputs of a linear, for few token rows: a block
// of threads owns 32 output rows, which is one quantisation group. In groups of 128 the last of
// four blocks to finish quantises; the values lie in bf16 until then.
#include "kernels/cuda/linear.cuh"

namespace sluice::cuda {
namespace {

// ---- 32 output rows per block, quantised on the way out, for up to 8 token rows -----------------

// Rows row0 .. row0 + 31 of `count` jobs, summed, to shared [job][2][128].
template <Kind kind, int count>
__device__ inline void rows32(const Job (&jobs)[count], int row0, float* shared) {
    int slices = blockDim.x / warp, w = threadIdx.x / warp, lane = threadIdx.x % warp;
    int blocks = ceil_div(jobs[0].cols, 32), per_slice = ceil_div(blocks, slices);
    int begin = w * per_slice, end = min(blocks, begin + per_slice);
    Ahead<kind, depth_of<kind>> ahead;
    ahead.load(jobs[0], row0, begin, end);
    Staged staged{};
    if constexpr (kind == Kind::fp8) {
        if (staged_bytes(jobs[0].cols, jobs[0].n) <= staged_max)
            staged = stage(jobs[0], 0, jobs[0].n,
                           reinterpret_cast<uint8_t*>(shared + slices * count * 256));
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < count * 2; ++m) {
        if (m > 0) ahead.load(jobs[m / 2], row0 + m % 2 * 16, begin, end);
        float sum[1][4] = {};
        skinny_slice<kind, 1>(jobs[m / 2], staged, ahead, row0 + m % 2 * 16, 0, begin, end, sum);
#pragma unroll
        for (int i = 0; i < 4; ++i) shared[(w * count * 2 + m) * 128 + i * warp + lane] = sum[0][i];
    }
    add_slices(shared, slices, count * 2 * 128);
}

__global__ void grouped_quant_kernel(Job job, QuantRows out, unsigned* tickets) {
    extern __shared__ float shared[];
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp;
    const Job jobs[1] = {job};
    rows32<Kind::grouped, 1>(jobs, row0, shared);
    for (int token = threadIdx.x / warp; token < job.n; token += blockDim.x / warp) {
        float v = round_bf16(shared[lane / 16 * 128 + tile_place(lane % 16, token)]);
        int64_t place = int64_t(token) * job.rows + row0 + lane;
        job.y_bf16[place] = to_bf16(v);
        store_part(v, out, place, job.y_bf16, tickets ? tickets + place / 128 : nullptr);
    }
}

__global__ void gate_up_kernel(Job gate, Job up, QuantRows out, const float* weights, float limit,
                               unsigned* tickets) {
    extern __shared__ float shared[];
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp;
    const Job jobs[2] = {gate, up};
    rows32<Kind::fp8, 2>(jobs, row0, shared);
    for (int token = threadIdx.x / warp; token < gate.n; token += blockDim.x / warp) {
        int at = lane / 16 * 128 + tile_place(lane % 16, token);
        float g = round_bf16(shared[at]), u = round_bf16(shared[256 + at]);
        int64_t place = int64_t(token) * gate.rows + row0 + lane;
        store_part(swiglu_value(g, u, weights ? weights + token : nullptr, limit), out, place,
                   gate.y_bf16, tickets ? tickets + place / 128 : nullptr);
    }
}

bool groups_fit(int group, int n, int rows) {
    return group == 32 || (rows % 128 == 0 && int64_t(n) * (rows / 128) <= tickets_max);
}

}  // namespace

bool launch(const GroupedOutputQuant& op, Lane lane) {
    Job job = job_of(op.output);
    if (job.n > 8 || job.group_rows % 32 || op.quant.x != op.output.t ||
        !groups_fit(op.quant.group, job.n, job.rows))
        return false;
    if (launch_one(op, lane)) return true;
    int bytes = shared_bytes<Kind::grouped>(job, 256, 8);
    if (job.n)
        launch_plain(grouped_quant_kernel, job.rows / 32, slices_of(job.cols) * warp, bytes, lane,
                     job, op.quant.out, tickets_of(op.quant.group, lane));
    return true;
}

// In groups of 128 gate.y holds the activations meanwhile.
bool launch(const GateUp& op, Lane lane) {
    Job gate = job_of(op.gate), up = job_of(op.up);
    if (gate.n > 8 || gate.rows % 32 || gate.rows != up.rows || gate.cols != up.cols ||
        op.swiglu.gate != op.gate.y || !groups_fit(op.swiglu.group, gate.n, gate.rows))
        return false;
    if (launch_one(op, lane)) return true;
    int bytes = shared_bytes<Kind::fp8>(gate, 512, 8);
    if (gate.n)
        launch_plain(gate_up_kernel, gate.rows / 32, slices_of(gate.cols) * warp, bytes, lane, gate,
                     up, op.swiglu.out, op.swiglu.weights, op.swiglu.limit,
                     tickets_of(op.swiglu.group, lane));
    return true;
}

}  // namespace sluice::cuda
