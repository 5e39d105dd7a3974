// Source of device.cuh. SparseAttention and RotatedAttention: a block of threads computes 16 heads
// of one query over its window and its selected rows.
//
// 1. Scores on tensor cores, a tile of 8 keys per warp, to shared memory.
// 2. Per head: maximum, exp, denominator (keys in a constant order); probabilities are rounded to
// bf16 in place.
// 3. Probabilities x keys on tensor cores. Each warp has columns of its own; keys are staged 16 at
// a time.
// Shared memory: 16 heads x keys fp32 + one key tile.
#include "kernels/cuda/attention.cuh"

namespace sluice::cuda {
namespace {

// A warp takes several tiles of 8 keys at a time, so that the heads' fragments are read and rotated
// once for all of them. The additions of each tile are those of score_tile().
__device__ void scores(const SparseAttention& op, const Turn& turn, int query, int head0,
                       const bf16* const* keys, int count, int stride, float* s) {
    constexpr int tiles = 4;
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    const bf16* row = op.q + (int64_t(query) * op.heads + head0 + g) * op.dim;
    bool low = head0 + g < op.heads, high = head0 + g + 8 < op.heads;
    for (int first = w * 8; first < count; first += tiles * warps * 8) {
        const bf16* key[tiles];
        float c[tiles][4] = {};
#pragma unroll
        for (int i = 0; i < tiles; ++i) {
            int at = first + i * warps * 8 + g;
            key[i] = at < count ? keys[at] : nullptr;
        }
        for (int d = 0; d < op.dim; d += 32) {
            int at = d + quad * 8;
            uint4 k[tiles];
#pragma unroll
            for (int i = 0; i < tiles; ++i) k[i] = load8(key[i], at, op.dim);
            uint4 a = turn8(load8(low ? row : nullptr, at, op.dim), turn, at),
                  b = turn8(load8(high ? row + 8 * op.dim : nullptr, at, op.dim), turn, at);
#pragma unroll
            for (int i = 0; i < tiles; ++i) mma_bf16(c[i], a.x, b.x, a.y, b.y, k[i].x, k[i].y);
#pragma unroll
            for (int i = 0; i < tiles; ++i) mma_bf16(c[i], a.z, b.z, a.w, b.w, k[i].z, k[i].w);
        }
#pragma unroll
        for (int i = 0; i < tiles * 4; ++i) {
            int at = first + i / 4 * warps * 8 + 2 * quad + i % 2;
            if (at < count) s[(g + i % 4 / 2 * 8) * stride + at] = c[i / 4][i % 4] * op.scale;
        }
    }
}

// Sixteen keys on their way to shared memory through registers: dim <= 512.
struct Ahead {
    static constexpr int pieces = key_tile * 512 / 8 / block;
    uint4 v[pieces];
    uint32_t place[pieces];  // key and element

    __device__ explicit Ahead(int dim) {
        int per_key = dim / 8;
#pragma unroll
        for (int i = 0; i < pieces; ++i) {
            int at = threadIdx.x + i * block;
            place[i] = at / per_key << 16 | at % per_key * 8;
        }
    }
    __device__ void load(const bf16* const* keys, int base, int count) {
#pragma unroll
        for (int i = 0; i < pieces; ++i) {
            int key = place[i] >> 16;
            v[i] = key < key_tile && base + key < count
                       ? *reinterpret_cast<const uint4*>(keys[base + key] + (place[i] & 0xffff))
                       : make_uint4(0, 0, 0, 0);
        }
    }
    __device__ void store(bf16* staged, int stride) const {
#pragma unroll
        for (int i = 0; i < pieces; ++i) {
            int key = place[i] >> 16;
            if (key < key_tile)
                *reinterpret_cast<uint4*>(staged + key * stride + (place[i] & 0xffff)) = v[i];
        }
    }
};

// Columns per warp: dim / warps rounded up to 8; at most 8 tiles of 8 columns (dim <= 512).
template <int tiles>
__device__ void weighted_sum(const SparseAttention& op, const Turn& back, int query, int head0,
                             const bf16* const* keys, int count, int stride, const float* s,
                             const float* den, bf16* staged, int staged_stride) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    float c[tiles][4] = {};
    Ahead ahead(op.dim);
    ahead.load(keys, 0, count);
    for (int base = 0; base < count; base += key_tile) {
        __syncthreads();
        ahead.store(staged, staged_stride);
        __syncthreads();
        ahead.load(keys, base + key_tile, count);
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
                uint32_t(__cvta_generic_to_shared(staged + (lane % 16) * staged_stride + column));
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

__global__ void __launch_bounds__(block, 3)
    attention_kernel(SparseAttention op, Rotation rotation, Shape shape) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float den[head_tile];
    int stride = shape.keys_max + 4, staged_stride = shape.dim_padded + 8;
    auto** keys = reinterpret_cast<const bf16**>(memory);
    auto* s = reinterpret_cast<float*>(keys + shape.keys_max);
    auto* staged = reinterpret_cast<bf16*>(s + head_tile * stride);
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

size_t attention_scratch_bytes(int heads, int window, int k) {
    size_t keys = ceil_div(window + k, key_tile) * key_tile + 4;
    return size_t(few_queries) * ceil_div(heads, head_tile) * head_tile * keys * sizeof(float);
}

size_t attention_shared_bytes(int window, int k, int dim) {
    size_t keys = ceil_div(window + k, key_tile) * key_tile;
    size_t many = keys * sizeof(const bf16*) + head_tile * (keys + 4) * sizeof(float) +
                  key_tile * (ceil_div(dim, 16) * 16 + 8) * sizeof(bf16);
    size_t few = few_shared_bytes(window, k);
    return many > few ? many : few;
}

namespace {

void launch(const SparseAttention& op, const Rotation& rotation, Lane lane) {
    if (!op.n) return;
    Shape shape{ceil_div(op.window + op.k, key_tile) * key_tile, ceil_div(op.dim, 16) * 16};
    if (op.n <= few_queries) return launch_few(op, rotation, lane);
    size_t bytes = attention_shared_bytes(op.window, op.k, op.dim);
    launch_plain(attention_kernel, dim3(op.n, ceil_div(op.heads, head_tile)), block, bytes, lane,
                 op, rotation, shape);
}

}  // namespace

void launch(const SparseAttention& op, Lane lane) {
    launch(op, Rotation{}, lane);
}

// The queries in memory stay as they are: they are rotated on the way to the matrix unit.
bool launch(const RotatedAttention& op, Lane lane) {
    launch(op.attention, Rotation{op.query.rope, op.query.position}, lane);
    return true;
}

}  // namespace sluice::cuda
