// Source of attention.cuh. Attention of few queries in two launches: scores, with a tile of 8 keys
// per warp; then probabilities and the weighted sum, with 32 columns of 16 heads per block of
// threads. The additions are those of attention_kernel.
#include "kernels/cuda/attention.cuh"

namespace sluice::cuda {
namespace {

constexpr int columns = 32, chunk = 160,
              pieces = columns / 8;                    // keys staged at once, 16-byte pieces
constexpr int tile_stride = columns + 8;               // halves
constexpr int held = ceil_div(chunk * pieces, block);  // pieces in flight per thread

int stride_of(int window, int k) {
    return ceil_div(window + k, key_tile) * key_tile + 4;
}

// s[query][head tile][16][stride].
__global__ void __launch_bounds__(block)
    few_scores_kernel(SparseAttention op, Rotation rotation, float* s, int stride) {
    extern __shared__ __align__(16) std::byte memory[];
    start_after_previous();
    auto** keys = reinterpret_cast<const bf16**>(memory);
    int query = blockIdx.z, head0 = blockIdx.y * head_tile, lane = threadIdx.x % warp,
        quad = lane % 4, g = lane / 4;
    int count = list_keys(op, query, keys);
    int tile = (blockIdx.x * warps + threadIdx.x / warp) * 8;
    if (tile >= count) return;
    Turn turn = turn_of(rotation.rope, rotation.position + query, op.dim, false);
    float c[4];
    score_tile(op, turn, query, head0, tile + g < count ? keys[tile + g] : nullptr, c);
    float* mine = s + (int64_t(query) * gridDim.y + blockIdx.y) * head_tile * stride;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at = tile + 2 * quad + i % 2;
        if (at < count) mine[(g + (i / 2) * 8) * stride + at] = c[i] * op.scale;
    }
}

// This thread's pieces of the chunk of keys that starts at `base`: 0 beyond the last key.
__device__ inline void fetch(const SparseAttention& op, const bf16* const* keys, int count,
                             int base, int column0, uint4 (&to)[held]) {
#pragma unroll
    for (int i = 0; i < held; ++i) {
        int piece = threadIdx.x + i * block, key = base + piece / pieces;
        const bf16* from = piece < chunk * pieces && key < count ? keys[key] : nullptr;
        to[i] = load8(from, column0 + piece % pieces * 8, op.dim);
    }
}

__global__ void __launch_bounds__(block)
    few_values_kernel(SparseAttention op, Rotation rotation, const float* scores, int stride) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float den[head_tile];
    auto* s = reinterpret_cast<float*>(memory);
    auto* tile = reinterpret_cast<bf16*>(s + head_tile * stride);
    auto** keys = reinterpret_cast<const bf16**>(tile + chunk * tile_stride);
    int query = blockIdx.z, head0 = blockIdx.y * head_tile, column0 = blockIdx.x * columns;
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    start_after_previous();
    int count = list_keys(op, query, keys), padded = ceil_div(count, key_tile) * key_tile;
    uint4 next[held];
    fetch(op, keys, count, 0, column0, next);
    const float* mine = scores + (int64_t(query) * gridDim.y + blockIdx.y) * head_tile * stride;
    for (int h = w; h < head_tile; h += warps)
#pragma unroll 5
        for (int i = lane * 4; i < count; i += warp * 4)
            *reinterpret_cast<float4*>(s + h * stride + i) =
                *reinterpret_cast<const float4*>(mine + h * stride + i);
    __syncwarp();  // each warp handles heads of its own
    softmax(op, head0, count, padded, stride, s, den);
    int column = w * 8;
    bool works = column < columns && column0 + column < op.dim;
    float c[4] = {0, 0, 0, 0};
    for (int base = 0; base < count; base += chunk) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < held; ++i) {
            int piece = threadIdx.x + i * block;
            if (piece < chunk * pieces)
                *reinterpret_cast<uint4*>(tile + piece / pieces * tile_stride +
                                          piece % pieces * 8) = next[i];
        }
        fetch(op, keys, count, base + chunk, column0, next);
        __syncthreads();
        if (!works) continue;
        int end = min(chunk, padded - base);
        for (int k = 0; k < end; k += key_tile) {
            const float *r0 = s + g * stride + base + k, *r1 = r0 + 8 * stride;
            uint32_t a0 = pack(r0[2 * quad], r0[2 * quad + 1]),
                     a1 = pack(r1[2 * quad], r1[2 * quad + 1]);
            uint32_t a2 = pack(r0[2 * quad + 8], r0[2 * quad + 9]),
                     a3 = pack(r1[2 * quad + 8], r1[2 * quad + 9]);
            uint32_t address =
                uint32_t(__cvta_generic_to_shared(tile + (k + lane % 16) * tile_stride + column));
            uint32_t b0, b1;
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                         : "=r"(b0), "=r"(b1)
                         : "r"(address));
            mma_bf16(c, a0, a1, a2, a3, b0, b1);
        }
    }
    __syncthreads();
    if (!works) return;
    Turn back = turn_of(rotation.rope, rotation.position + query, op.dim, true);
    write_tile(op, back, query, head0, column0 + column + 2 * quad, c, den);
}

}  // namespace

size_t few_shared_bytes(int window, int k) {
    size_t stride = stride_of(window, k);
    return head_tile * stride * sizeof(float) + chunk * tile_stride * sizeof(bf16) +
           stride * sizeof(const bf16*);
}

void launch_few(const SparseAttention& op, const Rotation& rotation, Lane lane) {
    unsigned tiles = ceil_div(op.heads, head_tile);
    int stride = stride_of(op.window, op.k);
    auto* s = reinterpret_cast<float*>(lane.scratch.memory);
    launch_kernel(few_scores_kernel, dim3(ceil_div(stride, warps * 8), tiles, op.n), block,
                  stride * sizeof(const bf16*), lane, op, rotation, s, stride);
    launch_kernel(few_values_kernel, dim3(ceil_div(op.dim, columns), tiles, op.n), block,
                  few_shared_bytes(op.window, op.k), lane, op, rotation,
                  reinterpret_cast<const float*>(s), stride);
}

}  // namespace sluice::cuda
