// Source of attention.cuh. Attention of few queries in two launches: scores, with a tile of 8 keys
// per warp; then probabilities and the weighted sum, with 32 columns of 16 heads per block of
// threads. The additions are those of attention_kernel.
//
// With many keys: addresses of the keys, scores, probabilities, and weighted sums of up to 1024
// keys each; the last block of threads to finish adds these up.
#include "kernels/cuda/attention.cuh"

namespace sluice::cuda {
namespace {

constexpr int columns = 32, chunk = 160,
              pieces = columns / 8;                    // keys staged at once, 16-byte pieces
constexpr int tile_stride = columns + 8;               // halves
constexpr int held = ceil_div(chunk * pieces, block);  // pieces in flight per thread

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

// ---- many keys ----------------------------------------------------------------------------------

// What the launches pass on through memory, for each query.
struct Parts {
    const bf16** keys;  // [query][stride]
    int* count;         // [query]
    float* s;           // [query][head tile][16][stride]: scores, then bf16 probabilities
    float* den;         // [query][head tile][16]
    float* sum;         // [query][head tile][sums][16][dim]
    int stride, sums;
    unsigned* tickets;
};

__device__ inline float* scores_of(const Parts& parts, int query, int tiles, int tile) {
    return parts.s + (int64_t(query) * tiles + tile) * head_tile * parts.stride;
}

__global__ void __launch_bounds__(block) parts_list_kernel(SparseAttention op, Parts parts) {
    start_after_previous();
    int query = blockIdx.x,
        count = list_keys(op, query, parts.keys + int64_t(query) * parts.stride);
    if (threadIdx.x == 0) parts.count[query] = count;
}

__global__ void __launch_bounds__(block, 2)
    parts_scores_kernel(SparseAttention op, Rotation rotation, Parts parts) {
    start_after_previous();
    int query = blockIdx.z, lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    int count = parts.count[query], tile = (blockIdx.x * warps + threadIdx.x / warp) * 8;
    if (tile >= count) return;
    const bf16* key =
        tile + g < count ? parts.keys[int64_t(query) * parts.stride + tile + g] : nullptr;
    Turn turn = turn_of(rotation.rope, rotation.position + query, op.dim, false);
    float c[4];
    score_tile(op, turn, query, blockIdx.y * head_tile, key, c);
    float* mine = scores_of(parts, query, gridDim.y, blockIdx.y);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at = tile + 2 * quad + i % 2;
        if (at < count) mine[(g + (i / 2) * 8) * parts.stride + at] = c[i] * op.scale;
    }
}

// A block of threads per head: softmax() of its row. The probabilities replace the scores, in half
// of the place: what they overwrite has been read.
__global__ void __launch_bounds__(block) parts_softmax_kernel(SparseAttention op, Parts parts) {
    constexpr int held_keys = 2048;
    __shared__ __align__(8) float p[held_keys];
    __shared__ float most_of[warps];
    start_after_previous();
    int head = blockIdx.x, query = blockIdx.y, tiles = ceil_div(op.heads, head_tile);
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, count = parts.count[query];
    float* row = scores_of(parts, query, tiles, head / head_tile) + head % head_tile * parts.stride;
    float most = -1e30f, sum = 0.0f;
    bool bad = false;
    for (int i = threadIdx.x; i < count; i += block) {
        most = fmaxf(most, row[i]);
        bad |= row[i] != row[i];
    }
    most = warp_max(most);
    if (lane == 0) most_of[w] = most;
    bad = __syncthreads_or(bad);
#pragma unroll
    for (int i = 0; i < warps; ++i) most = fmaxf(most, most_of[i]);
    int padded = ceil_div(count, key_tile) * key_tile;
    for (int base = 0; base < padded; base += held_keys) {
        int here = min(held_keys, padded - base);
        for (int i = threadIdx.x; i < here; i += block)
            p[i] = base + i < count ? exp_f32(row[base + i] - most) : 0.0f;
        __syncthreads();
        for (int i = threadIdx.x; i < here / 2; i += block)
            reinterpret_cast<uint32_t*>(row)[base / 2 + i] =
                pack(round_bf16(p[2 * i]), round_bf16(p[2 * i + 1]));
        if (w == 0)
            for (int i = lane; i < here; i += warp) sum = sum + p[i];
        __syncthreads();
    }
    if (w != 0) return;
    sum = warp_sum(sum) + exp_f32(op.sink[head] - most);
    if (lane == 0)
        parts.den[(int64_t(query) * tiles + head / head_tile) * head_tile + head % head_tile] =
            bad ? float_of(0x7fc00000u) : sum;
}

constexpr int part_chunk = 256;  // keys staged at once

// A sum's share of the weighted values: 16 heads x 8 columns per warp, of at most sum_keys keys.
__device__ inline void part_values(const SparseAttention& op, const bf16* const* keys, int count,
                                   const uint16_t* probabilities, int stride, int column0,
                                   bf16* tile, float (&c)[4]) {
    constexpr int each = part_chunk * pieces / block;
    int lane = threadIdx.x % warp, column = threadIdx.x / warp * 8, quad = lane % 4, g = lane / 4;
    int padded = ceil_div(count, key_tile) * key_tile;
    bool works = column < columns && column0 + column < op.dim;
    uint4 next[each];
    auto fetch_part = [&](int base) {
#pragma unroll
        for (int i = 0; i < each; ++i) {
            int piece = threadIdx.x + i * block, key = base + piece / pieces;
            next[i] =
                load8(key < count ? keys[key] : nullptr, column0 + piece % pieces * 8, op.dim);
        }
    };
    fetch_part(0);
    for (int base = 0; base < padded; base += part_chunk) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < each; ++i) {
            int piece = threadIdx.x + i * block;
            *reinterpret_cast<uint4*>(tile + piece / pieces * tile_stride + piece % pieces * 8) =
                next[i];
        }
        fetch_part(base + part_chunk);
        __syncthreads();
        if (!works) continue;
        int end = min(part_chunk, padded - base);
#pragma unroll 4
        for (int k = 0; k < end; k += key_tile) {
            const uint16_t* low = probabilities + int64_t(g) * stride + base + k + 2 * quad;
            const uint16_t* high = low + 8 * stride;
            auto two = [](const uint16_t* at) { return *reinterpret_cast<const uint32_t*>(at); };
            uint32_t a0 = two(low), a1 = two(high), a2 = two(low + 8), a3 = two(high + 8);
            uint32_t address =
                uint32_t(__cvta_generic_to_shared(tile + (k + lane % 16) * tile_stride + column));
            uint32_t b0, b1;
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                         : "=r"(b0), "=r"(b1)
                         : "r"(address));
            mma_bf16(c, a0, a1, a2, a3, b0, b1);
        }
    }
}

// blockIdx.x: 32 columns of one sum.
__global__ void __launch_bounds__(block)
    parts_values_kernel(SparseAttention op, Rotation rotation, Parts parts) {
    __shared__ __align__(16) bf16 tile[part_chunk * tile_stride];
    __shared__ const bf16* keys[sum_keys];
    __shared__ bool last;
    start_after_previous();
    int query = blockIdx.z, lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    int count = parts.count[query], sums = ceil_div(count, sum_keys),
        part = blockIdx.x % parts.sums;
    int column0 = int(blockIdx.x / parts.sums) * columns, column = threadIdx.x / warp * 8;
    int here = min(sum_keys, count - part * sum_keys);
    if (here <= 0) return;
    const bf16* const* from = parts.keys + int64_t(query) * parts.stride + part * sum_keys;
    for (int i = threadIdx.x; i < here; i += block) keys[i] = from[i];
    __syncthreads();
    auto* p = reinterpret_cast<const uint16_t*>(scores_of(parts, query, gridDim.y, blockIdx.y));
    float c[4] = {0, 0, 0, 0};
    part_values(op, keys, here, p + part * sum_keys, 2 * parts.stride, column0, tile, c);
    bool works = column < columns && column0 + column < op.dim;
    int64_t head_row = int64_t(query) * gridDim.y + blockIdx.y;
    column = column0 + column + 2 * quad;
    if (sums > 1) {
        float* sum = parts.sum + head_row * parts.sums * head_tile * op.dim + column;
        auto at = [&](int of, int h) {
            return reinterpret_cast<float2*>(sum + (int64_t(of) * head_tile + h) * op.dim);
        };
        if (works) {
            *at(part, g) = make_float2(c[0], c[1]);
            *at(part, g + 8) = make_float2(c[2], c[3]);
        }
        unsigned* ticket =
            parts.tickets + head_row * (gridDim.x / parts.sums) + blockIdx.x / parts.sums;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == unsigned(sums) - 1;
        __syncthreads();
        if (!last) return;
        if (threadIdx.x == 0) *ticket = 0;
        if (!works) return;
        __threadfence();
        c[0] = c[1] = c[2] = c[3] = 0.0f;
        for (int i = 0; i < sums; ++i) {
            float2 low = __ldcg(at(i, g)), high = __ldcg(at(i, g + 8));
            c[0] = c[0] + low.x;
            c[1] = c[1] + low.y;
            c[2] = c[2] + high.x;
            c[3] = c[3] + high.y;
        }
    }
    if (!works) return;
    Turn back = turn_of(rotation.rope, rotation.position + query, op.dim, true);
    write_tile(op, back, query, blockIdx.y * head_tile, column, c,
               parts.den + head_row * head_tile);
}

// Every array starts at a multiple of 256 bytes.
struct Carver {
    std::byte* memory;
    size_t used = 0;
    template <class T>
    void take(T*& array, size_t count) {
        array = memory ? reinterpret_cast<T*>(memory + used) : nullptr;
        used += (count * sizeof(T) + 255) / 256 * 256;
    }
};

size_t carve(Parts& parts, std::byte* memory, int n, int heads, int window, int k, int dim) {
    Carver carver{memory};
    size_t rows = size_t(n) * ceil_div(heads, head_tile) * head_tile;
    parts.stride = stride_of(window, k);
    parts.sums = ceil_div(padded_keys(window, k), sum_keys);
    carver.take(parts.keys, size_t(n) * parts.stride);
    carver.take(parts.count, n);
    carver.take(parts.s, rows * parts.stride);
    carver.take(parts.den, rows);
    carver.take(parts.sum, parts.sums > 1 ? rows * parts.sums * dim : 0);
    return carver.used;
}

void launch_parts(const SparseAttention& op, const Rotation& rotation, Lane lane) {
    Parts parts{};
    parts.tickets = lane.scratch.tickets;
    carve(parts, lane.scratch.memory, op.n, op.heads, op.window, op.k, op.dim);
    unsigned tiles = ceil_div(op.heads, head_tile);
    launch_kernel(parts_list_kernel, op.n, block, 0, lane, op, parts);
    launch_kernel(parts_scores_kernel, dim3(ceil_div(parts.stride, warps * 8), tiles, op.n), block,
                  0, lane, op, rotation, parts);
    launch_kernel(parts_softmax_kernel, dim3(op.heads, op.n), block, 0, lane, op, parts);
    launch_kernel(parts_values_kernel, dim3(ceil_div(op.dim, columns) * parts.sums, tiles, op.n),
                  block, 0, lane, op, rotation, parts);
}

}  // namespace

size_t few_parts_scratch_bytes(int heads, int window, int k, int dim) {
    Parts parts{};
    return carve(parts, nullptr, few_queries, heads, window, k, dim);
}

size_t few_shared_bytes(int window, int k) {
    size_t stride = stride_of(window, k);
    return head_tile * stride * sizeof(float) + chunk * tile_stride * sizeof(bf16) +
           stride * sizeof(const bf16*);
}

void launch_few(const SparseAttention& op, const Rotation& rotation, Lane lane) {
    if (!holds_all(op.window, op.k, op.dim)) return launch_parts(op, rotation, lane);
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
