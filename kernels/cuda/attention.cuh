// What the kernels of SparseAttention share: blocks of 256 threads, which handle 16 heads of one
// query at a time.
#pragma once

#include "kernels/cuda/rope.cuh"

namespace sluice::cuda {

struct Rotation {
    RopeTable rope;  // cos == null: no rotation
    int position;    // of query 0
};

constexpr int few_queries = 8;
// For at most few_queries queries: two launches that spread over the device, or four where one
// block of threads cannot hold all scores of its heads.
void launch_few(const SparseAttention& op, const Rotation& rotation, Lane lane);
size_t few_shared_bytes(int window, int k);
size_t few_parts_scratch_bytes(int heads, int window, int k, int dim);

// Whether a block of threads holds all scores of 16 heads, on every GPU. Both ways have the same
// order of additions.
bool holds_all(int window, int k, int dim);

namespace {

constexpr int block = 256, warps = block / warp, head_tile = 16, key_tile = 16;
// Keys of a query whose products are added up from zero; such sums are added in ascending order.
constexpr int sum_keys = 1024;

inline int padded_keys(int window, int k) {
    return ceil_div(window + k, key_tile) * key_tile;
}
// Floats from the scores of one head to those of the next.
inline int stride_of(int window, int k) {
    return padded_keys(window, k) + 4;
}

struct Shape {
    int keys_max;  // window + k, rounded up to 16
    // dim rounded up to 16. Rows of the key tile are 8 halves longer, to avoid bank conflicts.
    int dim_padded;
};

// The key at a position.
__device__ inline const bf16* window_key(const SparseAttention& op, int64_t at) {
    return at >= op.position ? op.chunk + (at - op.position) * op.dim
                             : op.buffer + at % op.window * op.dim;
}

// Rows of `compressed` that a query at position p sees where there is no list.
__device__ inline int visible_rows(const SparseAttention& op, int64_t p) {
    return op.compressed ? int(min((p + 1) / op.ratio, int64_t(op.k))) : 0;
}

// Fills `keys` with the addresses of the query's keys, in order, and returns how many there are.
// All threads call it.
__device__ inline int list_keys(const SparseAttention& op, int query, const bf16** keys) {
    __shared__ int valid_of[warps];
    int64_t p = int64_t(op.position) + query, first = max(int64_t(0), p - op.window + 1);
    int window = int(p - first + 1), lane = threadIdx.x % warp, w = threadIdx.x / warp;
    int at = window, k = op.compressed && op.ratio == 0 ? op.k : 0;
    const int32_t* rows = op.topk + int64_t(query) * op.k;
    int next = int(threadIdx.x) < k ? rows[threadIdx.x] : -1;
    for (int i = threadIdx.x; i < window; i += block) keys[i] = window_key(op, first + i);
    if (op.ratio > 0) {
        int visible = visible_rows(op, p);
        for (int i = threadIdx.x; i < visible; i += block)
            keys[window + i] = op.compressed + int64_t(i) * op.dim;
        at += visible;
    }
    for (int base = 0; base < k; base += block) {
        int row = next, ahead = base + block + int(threadIdx.x);
        next = ahead < k ? rows[ahead] : -1;
        unsigned valid = __ballot_sync(0xffffffffu, row >= 0);
        if (lane == 0) valid_of[w] = __popc(valid);
        __syncthreads();
        int before = at;
        for (int i = 0; i < warps; ++i) {
            if (i < w) before += valid_of[i];
            at += valid_of[i];
        }
        if (row >= 0)
            keys[before + __popc(valid & ((1u << lane) - 1))] =
                op.compressed + int64_t(row) * op.dim;
        __syncthreads();
    }
    __syncthreads();
    return at;
}

// Eight halves of a vector, 0 beyond the end. dim % 8 == 0, and vectors are 16-byte aligned.
__device__ inline uint4 load8(const bf16* v, int at, int dim) {
    return v && at < dim ? *reinterpret_cast<const uint4*>(v + at) : make_uint4(0, 0, 0, 0);
}

// The two bf16 of a word as a pair, rotated.
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

// Scores of 16 heads x 8 keys in the lane's fragment: rows g and g + 8, columns 2 quad and 2 quad +
// 1.
__device__ inline void score_tile(const SparseAttention& op, const Turn& turn, int query, int head0,
                                  const bf16* key, float (&c)[4]) {
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    auto head_row = [&](int h) {
        return head0 + h < op.heads ? op.q + (int64_t(query) * op.heads + head0 + h) * op.dim
                                    : nullptr;
    };
    const bf16 *low = head_row(g), *high = head_row(g + 8);
    c[0] = c[1] = c[2] = c[3] = 0.0f;
#pragma unroll 8
    for (int d = 0; d < op.dim; d += 32) {
        int at = d + quad * 8;
        uint4 a = turn8(load8(low, at, op.dim), turn, at),
              b = turn8(load8(high, at, op.dim), turn, at);
        uint4 k = load8(key, at, op.dim);
        mma_bf16(c, a.x, b.x, a.y, b.y, k.x, k.y);
        mma_bf16(c, a.z, b.z, a.w, b.w, k.z, k.w);
    }
}

// One warp per head: maximum, P, denominator. P stays in s, rounded to bf16; the tail up to
// `padded` is set to zero.
__device__ inline void softmax(const SparseAttention& op, int head0, int count, int padded,
                               int stride, float* s, float* den) {
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

// Two columns of heads g and g + 8, divided and rotated back.
__device__ inline void write_tile(const SparseAttention& op, const Turn& back, int query, int head0,
                                  int column, const float (&c)[4], const float* den) {
    int g = threadIdx.x % warp / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int h = g + i * 8;
        if (head0 + h >= op.heads) continue;
        float a = round_bf16(c[2 * i] / den[h]), b = round_bf16(c[2 * i + 1] / den[h]);
        back.apply(column, a, b);
        bf16* out = op.out + (int64_t(query) * op.heads + head0 + h) * op.dim + column;
        out[0] = to_bf16(a);
        out[1] = to_bf16(b);
    }
}

}  // namespace
}  // namespace sluice::cuda
