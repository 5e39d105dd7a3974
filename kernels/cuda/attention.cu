// SparseAttention and RotatedAttention: a block computes 16 heads of one query over its window and
// its selected rows.
//
// 1. scores on tensor cores, a tile of 8 keys a warp, to shared memory; 2. per head maximum, exp,
// denominator (keys in a constant order), probabilities rounded to bf16 in place; 3. probabilities
// x keys on tensor cores, each warp its own columns, keys staged 16 at a time. Shared memory: 16
// heads x keys fp32 + one key tile.
#include "kernels/cuda/rope.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 256, warps = block / warp, head_tile = 16, key_tile = 16;

struct Shape {
    int keys_max;    // window + k, a multiple of 16
    int dim_padded;  // multiple of 16; rows of the key tile are 8 halves longer against bank
                     // conflicts
};

// The vector of a position.
__device__ inline const bf16* window_key(const SparseAttention& op, int64_t at) {
    return at >= op.position ? op.chunk + (at - op.position) * op.dim
                             : op.ring + at % op.window * op.dim;
}

// Fills `keys` with where the query's keys are, in order, and returns how many. All threads call
// it.
__device__ int list_keys(const SparseAttention& op, int query, const bf16** keys, int* count) {
    int64_t p = (int64_t)op.position + query, first = max((int64_t)0, p - op.window + 1);
    int window = (int)(p - first + 1);
    for (int i = threadIdx.x; i < window; i += block) keys[i] = window_key(op, first + i);
    if (threadIdx.x < warp) {  // one warp compacts the selected rows, order kept
        int at = window;
        for (int base = 0; base < op.k; base += warp) {
            int i = base + threadIdx.x;
            int row = i < op.k ? op.topk[(int64_t)query * op.k + i] : -1;
            unsigned valid = __ballot_sync(0xffffffffu, row >= 0);
            if (row >= 0)
                keys[at + __popc(valid & ((1u << threadIdx.x) - 1))] =
                    op.compressed + (int64_t)row * op.dim;
            at += __popc(valid);
        }
        if (threadIdx.x == 0) *count = at;
    }
    __syncthreads();
    return *count;
}

// Eight halves of a vector, 0 beyond the end. dim % 16 == 0 and vectors are 16-byte aligned.
__device__ inline uint4 load8(const bf16* v, int at, int dim) {
    return v && at < dim ? __ldg((const uint4*)(v + at)) : make_uint4(0, 0, 0, 0);
}

// Two bf16 of a word as a pair, turned.
__device__ inline uint32_t turn_word(uint32_t word, const Turn& turn, int at) {
    float a = __uint_as_float(word << 16), b = __uint_as_float(word & 0xffff0000u);
    turn.apply(at, a, b);
    return (__float_as_uint(a) >> 16) | (__float_as_uint(b) & 0xffff0000u);
}
__device__ inline uint4 turn8(uint4 v, const Turn& turn, int at) {
    if (at + 8 <= turn.first) return v;
    return make_uint4(turn_word(v.x, turn, at), turn_word(v.y, turn, at + 2),
                      turn_word(v.z, turn, at + 4), turn_word(v.w, turn, at + 6));
}

// Scores of 16 heads x 8 keys in the lane's fragment: rows g and g + 8, columns 2 quad and 2 quad
// + 1.
__device__ inline void score_tile(const SparseAttention& op, const Turn& turn, int query, int head0,
                                  const bf16* key, float (&c)[4]) {
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    auto head_row = [&](int h) {
        return head0 + h < op.heads ? op.q + ((int64_t)query * op.heads + head0 + h) * op.dim
                                    : nullptr;
    };
    const bf16 *low = head_row(g), *high = head_row(g + 8);
    c[0] = c[1] = c[2] = c[3] = 0.0f;
#pragma unroll 4
    for (int d = 0; d < op.dim; d += 32) {
        int at = d + quad * 8;
        uint4 a = turn8(load8(low, at, op.dim), turn, at),
              b = turn8(load8(high, at, op.dim), turn, at);
        uint4 k = load8(key, at, op.dim);
        mma_bf16(c, a.x, b.x, a.y, b.y, k.x, k.y);
        mma_bf16(c, a.z, b.z, a.w, b.w, k.z, k.w);
    }
}

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

// One warp a head: maximum, P, denominator. P is left in s, rounded to bf16; the tail up to
// `padded` is zeroed.
__device__ void softmax(const SparseAttention& op, int head0, int count, int padded, int stride,
                        float* s, float* den) {
    int lane = threadIdx.x % warp;
    for (int h = threadIdx.x / warp; h < head_tile; h += warps) {
        float* row = s + h * stride;
        float most = -1e30f;
        bool bad = false;
        for (int i = lane; i < count; i += warp) {
            most = fmaxf(most, row[i]);
            bad |= row[i] != row[i];
        }
        most = warp_max(most);
        float sum = 0.0f;
        for (int i = lane; i < padded; i += warp) {
            float p = i < count ? exp_f32(row[i] - most) : 0.0f;
            sum = sum + p;
            row[i] = round_bf16(p);
        }
        sum = warp_sum(sum);
        float sink = head0 + h < op.heads ? op.sink[head0 + h] : 0.0f;
        sum = sum + exp_f32(sink - most);
        if (__any_sync(0xffffffffu, bad)) sum = float_of(0x7fc00000u);
        if (lane == 0) den[h] = sum;
    }
}

__device__ inline uint32_t pack(float low, float high) {
    return (__float_as_uint(low) >> 16) | (__float_as_uint(high) & 0xffff0000u);
}

// Two columns of heads g and g + 8, divided, turned back.
__device__ inline void write_tile(const SparseAttention& op, const Turn& back, int query, int head0,
                                  int column, const float (&c)[4], const float* den) {
    int g = threadIdx.x % warp / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int h = g + i * 8;
        if (head0 + h >= op.heads) continue;
        float a = round_bf16(c[2 * i] / den[h]), b = round_bf16(c[2 * i + 1] / den[h]);
        back.apply(column, a, b);
        bf16* out = op.out + ((int64_t)query * op.heads + head0 + h) * op.dim + column;
        out[0] = to_bf16(a);
        out[1] = to_bf16(b);
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

struct Rotation {
    RopeTable rope;  // cos == null: none
    int position;    // of query 0
};

__global__ void __launch_bounds__(block)
    attention_kernel(SparseAttention op, Rotation rotation, Shape shape) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float den[head_tile];
    __shared__ int found;
    int stride = shape.keys_max + 4, staged_stride = shape.dim_padded + 8;
    auto** keys = (const bf16**)memory;
    auto* s = (float*)(keys + shape.keys_max);
    auto* staged = (bf16*)(s + head_tile * stride);
    int query = blockIdx.x, head0 = blockIdx.y * head_tile;
    int count = list_keys(op, query, keys, &found);
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

// ---- few queries

constexpr int few = 8, columns = 64;

// s[query][head tile][16][stride]: a warp a tile of 8 keys.
__global__ void __launch_bounds__(block)
    score_kernel(SparseAttention op, Rotation rotation, float* s, int stride) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ int found;
    auto** keys = (const bf16**)memory;
    int query = blockIdx.z, head0 = blockIdx.y * head_tile, lane = threadIdx.x % warp,
        quad = lane % 4, g = lane / 4;
    int count = list_keys(op, query, keys, &found);
    int tile = (blockIdx.x * warps + threadIdx.x / warp) * 8;
    if (tile >= count) return;
    Turn turn = turn_of(rotation.rope, rotation.position + query, op.dim, false);
    float c[4];
    score_tile(op, turn, query, head0, tile + g < count ? keys[tile + g] : nullptr, c);
    float* mine = s + ((int64_t)query * gridDim.y + blockIdx.y) * head_tile * stride;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int at = tile + 2 * quad + i % 2;
        if (at < count) mine[(g + (i / 2) * 8) * stride + at] = c[i] * op.scale;
    }
}

// Elements (k, column) and (k + 1, column) of the keys as one word.
__device__ inline uint32_t key_pair(const SparseAttention& op, int query, const bf16* const* keys,
                                    int k, int count, int column) {
    uint32_t low = k < count ? keys[k][column].bits : 0;
    uint32_t high = k + 1 < count ? keys[k + 1][column].bits : 0;
    return low | high << 16;
}

__global__ void __launch_bounds__(block)
    value_kernel(SparseAttention op, Rotation rotation, const float* scores, int stride,
                 Shape shape) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float den[head_tile];
    __shared__ int found;
    auto** keys = (const bf16**)memory;
    auto* s = (float*)(keys + shape.keys_max);
    int query = blockIdx.z, head0 = blockIdx.y * head_tile, lane = threadIdx.x % warp,
        quad = lane % 4, g = lane / 4;
    int count = list_keys(op, query, keys, &found), padded = ceil_div(count, key_tile) * key_tile;
    const float* mine = scores + ((int64_t)query * gridDim.y + blockIdx.y) * head_tile * stride;
    for (int h = 0; h < head_tile; ++h)
        for (int i = threadIdx.x; i < count; i += block)
            s[h * stride + i] = __ldcg(mine + h * stride + i);
    __syncthreads();
    softmax(op, head0, count, padded, stride, s, den);
    __syncthreads();
    int column = blockIdx.x * columns + threadIdx.x / warp * 8;
    if (column >= op.dim) return;
    float c[4] = {0, 0, 0, 0};
#pragma unroll 4
    for (int base = 0; base < count; base += key_tile) {
        const float *r0 = s + g * stride + base, *r1 = s + (g + 8) * stride + base;
        uint32_t a0 = pack(r0[2 * quad], r0[2 * quad + 1]),
                 a1 = pack(r1[2 * quad], r1[2 * quad + 1]);
        uint32_t a2 = pack(r0[2 * quad + 8], r0[2 * quad + 9]),
                 a3 = pack(r1[2 * quad + 8], r1[2 * quad + 9]);
        uint32_t b0 = key_pair(op, query, keys, base + 2 * quad, count, column + g);
        uint32_t b1 = key_pair(op, query, keys, base + 2 * quad + 8, count, column + g);
        mma_bf16(c, a0, a1, a2, a3, b0, b1);
    }
    Turn back = turn_of(rotation.rope, rotation.position + query, op.dim, true);
    write_tile(op, back, query, head0, column + 2 * quad, c, den);
}

}  // namespace

size_t attention_workspace(int heads, int window, int k) {
    size_t keys = ceil_div(window + k, key_tile) * key_tile + 4;
    return (size_t)few * ceil_div(heads, head_tile) * head_tile * keys * sizeof(float);
}

size_t attention_shared_bytes(int window, int k, int dim) {
    size_t keys = ceil_div(window + k, key_tile) * key_tile;
    return keys * sizeof(const bf16*) + head_tile * (keys + 4) * sizeof(float) +
           key_tile * (ceil_div(dim, 16) * 16 + 8) * sizeof(bf16);
}

namespace {

void launch_few(const SparseAttention& op, const Rotation& rotation, const Shape& shape,
                Workspace& work, cudaStream_t stream) {
    unsigned tiles = ceil_div(op.heads, head_tile);
    int stride = shape.keys_max + 4;
    size_t list = shape.keys_max * sizeof(const bf16*),
           bytes = list + (size_t)head_tile * stride * sizeof(float);
    cudaFuncSetAttribute(value_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    auto* s = (float*)work.memory;
    score_kernel<<<dim3(ceil_div(shape.keys_max, warps * 8), tiles, op.n), block, list, stream>>>(
        op, rotation, s, stride);
    value_kernel<<<dim3(ceil_div(op.dim, columns), tiles, op.n), block, bytes, stream>>>(
        op, rotation, s, stride, shape);
}

void launch(const SparseAttention& op, const Rotation& rotation, Workspace& work,
            cudaStream_t stream) {
    if (!op.n) return;
    Shape shape{ceil_div(op.window + op.k, key_tile) * key_tile, ceil_div(op.dim, 16) * 16};
    if (op.n <= few) return launch_few(op, rotation, shape, work, stream);
    size_t bytes = attention_shared_bytes(op.window, op.k, op.dim);
    cudaFuncSetAttribute(attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    attention_kernel<<<dim3(op.n, ceil_div(op.heads, head_tile)), block, bytes, stream>>>(
        op, rotation, shape);
}

}  // namespace

void launch(const SparseAttention& op, Workspace& work, cudaStream_t stream) {
    launch(op, Rotation{}, work, stream);
}

// The queries stay as they are: they are turned on the way to the matrix unit.
void launch(const RotatedAttention& op, Workspace& work, cudaStream_t stream) {
    launch(op.attention, Rotation{op.query.rope, op.query.position}, work, stream);
}

}  // namespace sluice::cuda
