// Source of device.cuh. SparseAttention and RotatedAttention: a block of threads computes 16 heads
// of one query over its window and its selected rows.
//
// 1. Scores on tensor cores, a tile of 8 keys per warp, to shared memory.
// 2. Per head: maximum, exp, denominator (keys in a constant order); probabilities are rounded to
// bf16 in place.
// 3. Probabilities x keys on tensor cores. Each warp has columns of its own; keys are staged 16 at
// a time.
// Shared memory: 16 heads x keys fp32 + one key tile. Where that is too much, the keys pass twice
// in parts of 512: once for the maximum, and once more for the rest.
#include "kernels/cuda/attention.cuh"

namespace sluice::cuda {
namespace {

// A warp takes several tiles of 8 keys at a time, so that the heads' fragments are read and rotated
// once for all of them. The additions of each tile are those of score_tile().
template <int tiles>
__device__ void scores(const SparseAttention& op, const Turn& turn, int query, int head0,
                       const bf16* const* keys, int count, int stride, float* s) {
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

// c += 16 probabilities x staged keys, for this warp's columns.
template <int tiles>
__device__ inline void add_tile(int dim, const float* s, int stride, int base, const bf16* staged,
                                int staged_stride, float (&c)[tiles][4]) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    const float *r0 = s + g * stride + base, *r1 = s + (g + 8) * stride + base;
    uint32_t a0 = pack(r0[2 * quad], r0[2 * quad + 1]), a1 = pack(r1[2 * quad], r1[2 * quad + 1]);
    uint32_t a2 = pack(r0[2 * quad + 8], r0[2 * quad + 9]),
             a3 = pack(r1[2 * quad + 8], r1[2 * quad + 9]);
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
        int column = (t * warps + w) * 8;
        if (column >= dim) continue;
        uint32_t address =
            uint32_t(__cvta_generic_to_shared(staged + (lane % 16) * staged_stride + column));
        uint32_t b0, b1;
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(b0), "=r"(b1)
                     : "r"(address));
        mma_bf16(c[t], a0, a1, a2, a3, b0, b1);
    }
}

// Columns per warp: dim / warps rounded up to 8; at most 8 tiles of 8 columns (dim <= 512).
template <int tiles>
__device__ void weighted_sum(const SparseAttention& op, const Turn& back, int query, int head0,
                             const bf16* const* keys, int count, int stride, const float* s,
                             const float* den, bf16* staged, int staged_stride) {
    int w = threadIdx.x / warp, quad = threadIdx.x % 4;
    float c[tiles][4] = {};
    Ahead ahead(op.dim);
    ahead.load(keys, 0, count);
    for (int base = 0; base < count; base += key_tile) {
        __syncthreads();
        ahead.store(staged, staged_stride);
        __syncthreads();
        ahead.load(keys, base + key_tile, count);
        add_tile(op.dim, s, stride, base, staged, staged_stride, c);
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
    scores<4>(op, turn, query, head0, keys, count, stride, s);
    __syncthreads();
    softmax(op, head0, count, ceil_div(count, key_tile) * key_tile, stride, s, den);
    __syncthreads();
    if (op.dim <= 128)
        weighted_sum<2>(op, back, query, head0, keys, count, stride, s, den, staged, staged_stride);
    else
        weighted_sum<8>(op, back, query, head0, keys, count, stride, s, den, staged, staged_stride);
}

// ---- many keys ----------------------------------------------------------------------------------

constexpr int part = 512, part_stride = part + 4;  // keys in shared memory at a time
#if __CUDA_ARCH__ >= 800
constexpr int resident = 2;  // blocks of threads per multiprocessor
#else
constexpr int resident = 1;
#endif
static_assert(sum_keys % part == 0 && part % warp == 0);

// A query's keys in order, `part` at a time.
struct KeyParts {
    int window = 0, row = 0, spare = 0;  // taken so far; keys beyond those returned last
};

// Returns how many keys there are now, `part` until the last. `keys` has room for a block more. All
// threads call it, and none still reads the keys from before.
__device__ inline int next_keys(const SparseAttention& op, int query, KeyParts& parts,
                                const bf16** keys) {
    __shared__ int valid_of[warps];
    int64_t p = int64_t(op.position) + query, first = max(int64_t(0), p - op.window + 1);
    int window = int(p - first + 1), lane = threadIdx.x % warp, w = threadIdx.x / warp;
    int at = parts.spare;
    const bf16* moved = int(threadIdx.x) < at ? keys[part + threadIdx.x] : nullptr;
    __syncthreads();
    if (moved) keys[threadIdx.x] = moved;
    int more = min(part - at, window - parts.window);
    for (int i = threadIdx.x; i < more; i += block)
        keys[at + i] = window_key(op, first + parts.window + i);
    parts.window += more;
    at += more;
    if (op.ratio > 0) {
        more = min(part - at, visible_rows(op, p) - parts.row);
        for (int i = threadIdx.x; i < more; i += block)
            keys[at + i] = op.compressed + int64_t(parts.row + i) * op.dim;
        parts.row += more;
        at += more;
    } else if (op.compressed) {
        const int32_t* rows = op.topk + int64_t(query) * op.k;
        for (; at < part && parts.row < op.k; parts.row += block) {
            int i = parts.row + threadIdx.x, row = i < op.k ? rows[i] : -1;
            unsigned valid = __ballot_sync(0xffffffffu, row >= 0);
            if (lane == 0) valid_of[w] = __popc(valid);
            __syncthreads();
            int before = at;
            for (int j = 0; j < warps; ++j) {
                if (j < w) before += valid_of[j];
                at += valid_of[j];
            }
            if (row >= 0)
                keys[before + __popc(valid & ((1u << lane) - 1))] =
                    op.compressed + int64_t(row) * op.dim;
            __syncthreads();
        }
    }
    parts.spare = max(0, at - part);
    __syncthreads();
    return min(at, part);
}

// Maximum of this warp's two heads over a part.
__device__ inline void part_most(const float* s, int count, float (&most)[2], bool (&bad)[2]) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float* row = s + (w + h * warps) * part_stride;
        for (int i = lane; i < count; i += warp) {
            most[h] = fmaxf(most[h], row[i]);
            bad[h] |= row[i] != row[i];
        }
    }
}

// Probabilities of a part, as in softmax(): the lanes' sums go on over the parts.
__device__ inline void part_softmax(float* s, int count, const float (&most)[2], float (&sum)[2]) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp;
    int padded = ceil_div(count, key_tile) * key_tile;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float* row = s + (w + h * warps) * part_stride;
        for (int i = lane; i < padded; i += warp) {
            float p = i < count ? exp_f32(row[i] - most[h]) : 0.0f;
            sum[h] = sum[h] + p;
            row[i] = round_bf16(p);
        }
    }
}

template <int tiles>
__device__ inline void part_values(const SparseAttention& op, const bf16* const* keys, int count,
                                   const float* s, bf16* staged, int staged_stride,
                                   float (&c)[tiles][4]) {
    Ahead ahead(op.dim);
    ahead.load(keys, 0, count);
    for (int base = 0; base < count; base += key_tile) {
        __syncthreads();
        ahead.store(staged, staged_stride);
        __syncthreads();
        ahead.load(keys, base + key_tile, count);
        add_tile(op.dim, s, part_stride, base, staged, staged_stride, c);
    }
    __syncthreads();
}

template <int tiles>
__global__ void __launch_bounds__(block, resident)
    attention_parts_kernel(SparseAttention op, Rotation rotation) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float den[head_tile];
    auto** keys = reinterpret_cast<const bf16**>(memory);
    auto* s = reinterpret_cast<float*>(keys + part + block);
    auto* staged = reinterpret_cast<bf16*>(s + head_tile * part_stride);
    int staged_stride = ceil_div(op.dim, 16) * 16 + 8, w = threadIdx.x / warp;
    int query = blockIdx.x, head0 = blockIdx.y * head_tile, all = 0, count = part;
    Turn turn = turn_of(rotation.rope, rotation.position + query, op.dim, false);
    float most[2] = {-1e30f, -1e30f}, sum[2] = {0.0f, 0.0f};
    bool bad[2] = {false, false};
    KeyParts parts;
    auto score = [&] {
        count = next_keys(op, query, parts, keys);
        scores<2>(op, turn, query, head0, keys, count, part_stride, s);
        __syncthreads();
    };
    for (; count == part; all += count) {
        score();
        part_most(s, count, most, bad);
        __syncthreads();
    }
    most[0] = warp_max(most[0]);
    most[1] = warp_max(most[1]);
    float c[tiles][4] = {}, total[tiles][4] = {};
    parts = {};
    for (int base = 0; base < all; base += part) {
        if (all > part)
            score();
        else
            count = all;  // their scores are still there
        part_softmax(s, count, most, sum);
        part_values(op, keys, count, s, staged, staged_stride, c);
        if ((base + part) % sum_keys && base + part < all) continue;
#pragma unroll
        for (int i = 0; i < tiles * 4; ++i) {
            total[i / 4][i % 4] = total[i / 4][i % 4] + c[i / 4][i % 4];
            c[i / 4][i % 4] = 0.0f;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        int head = head0 + w + h * warps;
        float d = warp_sum(sum[h]) + exp_f32((head < op.heads ? op.sink[head] : 0.0f) - most[h]);
        if (__any_sync(0xffffffffu, bad[h])) d = float_of(0x7fc00000u);
        if (threadIdx.x % warp == 0) den[w + h * warps] = d;
    }
    __syncthreads();
    turn.inverse = true;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
        int column = (t * warps + w) * 8 + 2 * (threadIdx.x % 4);
        if (column < op.dim) write_tile(op, turn, query, head0, column, total[t], den);
    }
}

size_t key_tile_bytes(int dim) {
    return key_tile * (ceil_div(dim, 16) * 16 + 8) * sizeof(bf16);
}
size_t all_bytes(int window, int k, int dim) {
    size_t keys = padded_keys(window, k);
    return keys * sizeof(const bf16*) + head_tile * (keys + 4) * sizeof(float) +
           key_tile_bytes(dim);
}
size_t parts_bytes(int dim) {
    return (part + block) * sizeof(const bf16*) + head_tile * part_stride * sizeof(float) +
           key_tile_bytes(dim);
}

}  // namespace

bool holds_all(int window, int k, int dim) {
    constexpr size_t turing = 64 * 1024, other = 512;  // static shared memory
    return padded_keys(window, k) <= sum_keys && all_bytes(window, k, dim) <= turing - other &&
           few_shared_bytes(window, k) <= turing - other;
}

size_t attention_scratch_bytes(int heads, int window, int k, int dim) {
    if (!holds_all(window, k, dim)) return few_parts_scratch_bytes(heads, window, k, dim);
    return size_t(few_queries) * ceil_div(heads, head_tile) * head_tile * stride_of(window, k) *
           sizeof(float);
}

size_t attention_shared_bytes(int window, int k, int dim) {
    if (!holds_all(window, k, dim)) return parts_bytes(dim);
    size_t many = all_bytes(window, k, dim), few = few_shared_bytes(window, k);
    return many > few ? many : few;
}

namespace {

void launch(const SparseAttention& op, const Rotation& rotation, Lane lane) {
    if (!op.n) return;
    if (op.n <= few_queries) return launch_few(op, rotation, lane);
    dim3 grid(op.n, ceil_div(op.heads, head_tile));
    size_t bytes = attention_shared_bytes(op.window, op.k, op.dim);
    if (!holds_all(op.window, op.k, op.dim))
        return launch_plain(op.dim <= 128 ? attention_parts_kernel<2> : attention_parts_kernel<8>,
                            grid, block, bytes, lane, op, rotation);
    Shape shape{padded_keys(op.window, op.k), ceil_div(op.dim, 16) * 16};
    launch_plain(attention_kernel, grid, block, bytes, lane, op, rotation, shape);
}

}  // namespace

void launch(const SparseAttention& op, Lane lane) {
    launch(op, Rotation{}, lane);
}

// The queries in memory are rotated on the way to the matrix unit, and stay as they are.
bool launch(const RotatedAttention& op, Lane lane) {
    if (op.norm.x) launch(op.norm, lane);
    launch(op.attention, Rotation{op.query.rope, op.query.position}, lane);
    return true;
}

}  // namespace sluice::cuda
