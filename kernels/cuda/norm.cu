// Source of device.cuh. RmsNorm, HyperCollapse, HyperExpand, WindowStore, Combine, CompressPool,
// EngramGate: one pass over rows.
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 256;

__global__ void rms_norm_kernel(RmsNorm op) {
    start_after_previous();
    __shared__ float shared[block / warp];
    const bf16* x = op.x + int64_t(blockIdx.x) * op.cols;
    bf16* y = op.y + int64_t(blockIdx.x) * op.cols;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < op.cols; k += block) {
        float v = to_float(x[k]);
        sum = sum + v * v;
    }
    sum = block_sum(sum, shared);
    float r = 1.0f / sqrtf(sum / float(op.cols) + op.eps);
    for (int k = threadIdx.x; k < op.cols; k += block)
        y[k] = to_bf16(to_float(op.w[k]) * (to_float(x[k]) * r));
}

__global__ void collapse_kernel(HyperCollapse op) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= int64_t(op.n) * op.dim) return;
    int64_t row = i / op.dim, d = i % op.dim;
    const bf16* h = op.h + row * op.hc * op.dim + d;
    const float* pre = op.pre + row * op.hc;
    float acc = pre[0] * to_float(h[0]);
    for (int j = 1; j < op.hc; ++j) acc = acc + pre[j] * to_float(h[int64_t(j) * op.dim]);
    op.x[i] = to_bf16(acc);
}

constexpr int hc_max = 8;

__global__ void expand_kernel(HyperExpand op) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= int64_t(op.n) * op.dim) return;
    int64_t row = i / op.dim, d = i % op.dim;
    bf16* h = op.h + row * op.hc * op.dim + d;
    const float* comb = op.comb + row * op.hc * op.hc;
    float x = to_float(op.x[i]);
    float old[hc_max];
#pragma unroll
    for (int j = 0; j < hc_max; ++j)
        if (j < op.hc) old[j] = to_float(h[int64_t(j) * op.dim]);
    for (int k = 0; k < op.hc; ++k) {
        float s = comb[k] * old[0];
#pragma unroll
        for (int j = 1; j < hc_max; ++j)
            if (j < op.hc) s = s + comb[j * op.hc + k] * old[j];
        h[int64_t(k) * op.dim] = to_bf16(op.post[row * op.hc + k] * x + s);
    }
}

__global__ void window_store_kernel(WindowStore op, int first) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    int64_t row = first + i / op.dim;
    if (row >= op.n) return;
    int64_t slot = (op.position + row) % op.window;
    op.buffer[slot * op.dim + i % op.dim] = op.chunk[row * op.dim + i % op.dim];
}

__global__ void combine_kernel(Combine op) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= int64_t(op.n) * op.dim) return;
    int64_t row = i / op.dim, d = i % op.dim;
    float sum = 0.0f;
    for (int k = 0; k < op.k; ++k) sum = sum + to_float(op.partial[(row * op.k + k) * op.dim + d]);
    op.y[i] = to_bf16(sum + to_float(op.shared[i]));
}

// One thread per feature and group. A second launch moves the rest to the open rows, after every
// group has been read.
__global__ void compress_pool_kernel(CompressPool op, int groups) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= int64_t(groups) * op.dim) return;
    int group = i / op.dim, d = i % op.dim;
    auto row = [&](const float* open, const float* fresh, int t) {
        return t < op.open_rows ? open[int64_t(t) * op.dim + d]
                                : fresh[int64_t(t - op.open_rows) * op.dim + d];
    };
    float most = row(op.open_gate, op.gate, group * op.ratio);
    for (int r = 1; r < op.ratio; ++r)
        most = fmaxf(most, row(op.open_gate, op.gate, group * op.ratio + r));
    float sum = 0.0f;
    for (int r = 0; r < op.ratio; ++r)
        sum = sum + exp_f32(row(op.open_gate, op.gate, group * op.ratio + r) - most);
    float acc = 0.0f;
    for (int r = 0; r < op.ratio; ++r) {
        float w = exp_f32(row(op.open_gate, op.gate, group * op.ratio + r) - most) / sum;
        acc = acc + w * row(op.open_kv, op.kv, group * op.ratio + r);
    }
    op.latent[i] = to_bf16(acc);
}

__global__ void compress_rest_kernel(CompressPool op, int done, int rest) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= int64_t(rest) * op.dim) return;
    int64_t t = done + i / op.dim;
    // Only when no group was completed: the token stays where it is.
    if (t < op.open_rows) return;
    int64_t from = (t - op.open_rows) * op.dim + i % op.dim;
    op.open_kv[i] = op.kv[from];
    op.open_gate[i] = op.gate[from];
}

// The same with places or overlapping groups.
struct Entry {
    float kv, gate;
};
// Columns of a row, and where the open tokens begin.
__device__ inline int64_t pool_columns(const CompressPool& op) {
    return op.overlap ? 2 * int64_t(op.dim) : op.dim;
}
__device__ inline int open_first(const CompressPool& op) {
    return op.overlap ? op.ratio : 0;
}
// Token t of the pooled stream; with t < 0, of the previous group.
__device__ inline Entry entry_of(const CompressPool& op, int t, int64_t column) {
    int64_t columns = pool_columns(op);
    if (t < op.open_rows) {
        int64_t at = (open_first(op) + t) * columns + column;
        return {op.open_kv[at], op.open_gate[at]};
    }
    int64_t at = (t - op.open_rows) * columns + column;
    float gate = op.gate[at];
    if (op.place) gate = gate + op.place[t % op.ratio * columns + column];
    return {op.kv[at], gate};
}

__global__ void place_pool_kernel(CompressPool op, int groups) {
    start_after_previous();
    int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= int64_t(groups) * op.dim) return;
    int group = i / op.dim, d = i % op.dim, begin = group * op.ratio, end = begin + op.ratio;
    int first = op.overlap && (group > 0 || op.previous) ? begin - op.ratio : begin;
    auto entry = [&](int t) { return entry_of(op, t, op.overlap && t >= begin ? op.dim + d : d); };
    float most = entry(first).gate;
    for (int t = first + 1; t < end; ++t) most = fmaxf(most, entry(t).gate);
    float sum = 0.0f;
    for (int t = first; t < end; ++t) sum = sum + exp_f32(entry(t).gate - most);
    float acc = 0.0f;
    for (int t = first; t < end; ++t) {
        Entry e = entry(t);
        acc = acc + exp_f32(e.gate - most) / sum * e.kv;
    }
    op.latent[i] = to_bf16(acc);
}

// A thread moves what may be read and written of one place in a group: the last complete group's
// row to the previous group's, then the rest's to the open one.
__global__ void place_rest_kernel(CompressPool op, int groups, int rest) {
    start_after_previous();
    int64_t columns = pool_columns(op), i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= op.ratio * columns) return;
    int r = int(i / columns), t = groups * op.ratio + r;
    if (op.overlap && groups) {
        Entry e = entry_of(op, t - op.ratio, i % columns);
        op.open_kv[i] = e.kv;
        op.open_gate[i] = e.gate;
    }
    if (r >= rest || t < op.open_rows) return;
    Entry e = entry_of(op, t, i % columns);
    int64_t to = open_first(op) * columns + i;
    op.open_kv[to] = e.kv;
    op.open_gate[to] = e.gate;
}

// One block of threads per token and stream.
__global__ void engram_gate_kernel(EngramGate op) {
    start_after_previous();
    __shared__ float shared[block / warp];
    int64_t row = blockIdx.x / op.hc, j = blockIdx.x % op.hc;
    const bf16* kv = op.kv + row * (op.hc + 1) * op.dim;
    const bf16* key = kv + j * op.dim;
    const bf16* value = kv + int64_t(op.hc) * op.dim;
    bf16* h = op.h + (row * op.hc + j) * op.dim;
    float hh = 0.0f, kk = 0.0f, dot = 0.0f;
    for (int d = threadIdx.x; d < op.dim; d += block) {
        float a = to_float(h[d]), b = to_float(key[d]);
        float w = to_float(op.q_weight[j * op.dim + d]) * to_float(op.k_weight[j * op.dim + d]);
        hh = hh + a * a;
        kk = kk + b * b;
        dot = dot + (a * w) * b;
    }
    hh = block_sum(hh, shared);
    kk = block_sum(kk, shared);
    dot = block_sum(dot, shared);
    float rho =
        (1.0f / sqrtf(hh / float(op.dim) + op.eps)) * (1.0f / sqrtf(kk / float(op.dim) + op.eps));
    float d = dot * rho * (1.0f / sqrtf(float(op.dim)));
    float size = sqrtf(fmaxf(fabsf(d), 1e-6f));
    float g = is_finite(d) ? sigmoid_f32(copysignf(size, d)) : float_of(0x7fc00000u);
    for (int i = threadIdx.x; i < op.dim; i += block)
        h[i] = to_bf16(to_float(h[i]) + g * to_float(value[i]));
}

unsigned grid_of(int64_t threads) {
    return unsigned(ceil_div<int64_t>(threads, block));
}

}  // namespace

void launch(const RmsNorm& op, Lane lane) {
    if (op.n) launch_kernel(rms_norm_kernel, op.n, block, 0, lane, op);
}
void launch(const HyperCollapse& op, Lane lane) {
    if (op.n) launch_kernel(collapse_kernel, grid_of(int64_t(op.n) * op.dim), block, 0, lane, op);
}
void launch(const HyperExpand& op, Lane lane) {
    if (op.n) launch_kernel(expand_kernel, grid_of(int64_t(op.n) * op.dim), block, 0, lane, op);
}
void launch(const WindowStore& op, Lane lane) {
    int rows = op.n < op.window ? op.n : op.window;
    if (rows)
        launch_kernel(window_store_kernel, grid_of(int64_t(rows) * op.dim), block, 0, lane, op,
                      op.n - rows);
}
void launch(const Combine& op, Lane lane) {
    if (op.n) launch_kernel(combine_kernel, grid_of(int64_t(op.n) * op.dim), block, 0, lane, op);
}
void launch(const CompressPool& op, Lane lane) {
    int groups = (op.open_rows + op.n) / op.ratio, rest = (op.open_rows + op.n) % op.ratio;
    if (op.place || op.overlap) {
        int64_t places = int64_t(op.ratio) * op.dim * (op.overlap ? 2 : 1);
        if (groups)
            launch_kernel(place_pool_kernel, grid_of(int64_t(groups) * op.dim), block, 0, lane, op,
                          groups);
        if (op.n)
            launch_kernel(place_rest_kernel, grid_of(places), block, 0, lane, op, groups, rest);
        return;
    }
    if (groups)
        launch_kernel(compress_pool_kernel, grid_of(int64_t(groups) * op.dim), block, 0, lane, op,
                      groups);
    if (rest)
        launch_kernel(compress_rest_kernel, grid_of(int64_t(rest) * op.dim), block, 0, lane, op,
                      groups * op.ratio, rest);
}
void launch(const EngramGate& op, Lane lane) {
    if (op.n) launch_kernel(engram_gate_kernel, op.n * op.hc, block, 0, lane, op);
}

}  // namespace sluice::cuda
