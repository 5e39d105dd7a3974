// SparseAttention and RotatedAttention: a block computes 16 heads of one query over its window and
// its selected rows.
//
// 1. scores on tensor cores, a tile of 8 keys a warp, to shared memory; 2. per head maximum, exp,
// denominator (keys in a constant order), probabilities rounded to bf16 in place; 3. probabilities
// x keys on tensor cores, each warp its own columns, keys staged 16 at a time. Shared memory: 16
// heads x keys fp32 + one key tile.
#include "kernels/cuda/attention.cuh"

namespace sluice::cuda {
namespace {

__device__ void scores(const SparseAttention& op, const Turn& turn, int query, int head0,
                       const bf16* const* keys, int count, int stride, float* s) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    for (int tile = w * 8; tile < count; tile += warps * 8) {
        float c[4];
        score_tile(op, turn, query, head0, tile + g < count ? keys[tile + g] : nullptr, c);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int at = tile + 2 * quad + i % 2;
            if (at < count) s[(g + (i / 2) * 8) * stride + at] = c[i] * op.scale;
        }
    }
}

// Columns per warp: dim / warps rounded up to 8; at most 8 tiles of 8 columns (dim <= 512).
template <int tiles>
__device__ void weighted_sum(const SparseAttention& op, const Turn& back, int query, int head0,
                             const bf16* const* keys, int count, int stride, const float* s,
                             const float* den, bf16* staged, int staged_stride) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    float c[tiles][4] = {};
    for (int base = 0; base < count; base += key_tile) {
        __syncthreads();
        int pieces = op.dim / 8;
        for (int i = threadIdx.x; i < key_tile * pieces; i += block) {
            int key = i / pieces, at = i % pieces * 8;
            const bf16* from = base + key < count ? keys[base + key] : nullptr;
            *(uint4*)(staged + key * staged_stride + at) = load8(from, at, op.dim);
        }
        __syncthreads();
        const float *r0 = s + g * stride + base, *r1 = s + (g + 8) * stride + base;
        uint32_t a0 = pack(r0[2 * quad], r0[2 * quad + 1]),
                 a1 = pack(r1[2 * quad], r1[2 * quad + 1]);
        uint32_t a2 = pack(r0[2 * quad + 8], r0[2 * quad + 9]),
                 a3 = pack(r1[2 * quad + 8], r1[2 * quad + 9]);
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
            int column = (t * warps + w) * 8;
            if (column >= op.dim) continue;
            uint32_t address =
                (uint32_t)__cvta_generic_to_shared(staged + (lane % 16) * staged_stride + column);
            uint32_t b0, b1;
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                         : "=r"(b0), "=r"(b1)
                         : "r"(address));
            mma_bf16(c[t], a0, a1, a2, a3, b0, b1);
        }
    }
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
        int column = (t * warps + w) * 8 + 2 * quad;
        if (column >= op.dim) continue;
        write_tile(op, back, query, head0, column, c[t], den);
    }
}

__global__ void __launch_bounds__(block)
    attention_kernel(SparseAttention op, Rotation rotation, Shape shape) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float den[head_tile];
    int stride = shape.keys_max + 4, staged_stride = shape.dim_padded + 8;
    auto** keys = (const bf16**)memory;
    auto* s = (float*)(keys + shape.keys_max);
    auto* staged = (bf16*)(s + head_tile * stride);
    int query = blockIdx.x, head0 = blockIdx.y * head_tile;
    int count = list_keys(op, query, keys);
    Turn turn = turn_of(rotation.rope, rotation.position + query, op.dim, false);
    Turn back = turn;
    back.inverse = true;
    scores(op, turn, query, head0, keys, count, stride, s);
    __syncthreads();
    softmax(op, head0, count, ceil_div(count, key_tile) * key_tile, stride, s, den);
    __syncthreads();
    if (op.dim <= 128)
        weighted_sum<2>(op, back, query, head0, keys, count, stride, s, den, staged, staged_stride);
    else
        weighted_sum<8>(op, back, query, head0, keys, count, stride, s, den, staged, staged_stride);
}

}  // namespace

size_t attention_workspace(int heads, int window, int k) {
    size_t keys = ceil_div(window + k, key_tile) * key_tile + 4;
    return (size_t)few_queries * ceil_div(heads, head_tile) * head_tile * keys * sizeof(float);
}

size_t attention_shared_bytes(int window, int k, int dim) {
    size_t keys = ceil_div(window + k, key_tile) * key_tile;
    size_t many = keys * sizeof(const bf16*) + head_tile * (keys + 4) * sizeof(float) +
                  key_tile * (ceil_div(dim, 16) * 16 + 8) * sizeof(bf16);
    size_t few = few_shared_bytes(window, k);
    return many > few ? many : few;
}

namespace {

void launch(const SparseAttention& op, const Rotation& rotation, Workspace& work, Lane lane) {
    if (!op.n) return;
    Shape shape{ceil_div(op.window + op.k, key_tile) * key_tile, ceil_div(op.dim, 16) * 16};
    if (op.n <= few_queries) return launch_few(op, rotation, work, lane);
    size_t bytes = attention_shared_bytes(op.window, op.k, op.dim);
    cudaFuncSetAttribute(attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    attention_kernel<<<dim3(op.n, ceil_div(op.heads, head_tile)), block, bytes, lane>>>(
        op, rotation, shape);
}

}  // namespace

void launch(const SparseAttention& op, Workspace& work, Lane lane) {
    launch(op, Rotation{}, work, lane);
}

// The queries stay as they are: they are turned on the way to the matrix unit.
void launch(const RotatedAttention& op, Workspace& work, Lane lane) {
    launch(op.attention, Rotation{op.query.rope, op.query.position}, work, lane);
}

}  // namespace sluice::cuda
