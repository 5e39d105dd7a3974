// Dense linears on tensor cores, batch-invariant: one order of additions over K for 1 row or 4096.
//
// K is cut into blocks of 32 and into `slices` of whole blocks; how many depends only on the
// matrix. Inside a block two k = 16 matrix instructions start from zero. Their result, times the
// scales, is added to the slice's sum, blocks ascending; slices are added in ascending order. The
// skinny kernel (few token rows) gives each slice a warp, the wide one walks through them in turn:
// the same additions.
//
// FP8 codes become halves in registers (exact) and are never expanded in memory. Inside a block the
// four threads of a quad take eight neighbouring k each, the same for both operands, so that loads
// are whole words; it does not matter to a sum over k.
#pragma once

#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

enum class Kind { fp8, bf16, grouped };  // weights FP8 x quantised rows; BF16 x BF16; FP8 x BF16

struct Job {
    const uint8_t* codes;  // fp8, grouped
    const uint8_t* w_scales;
    const bf16* w;           // bf16
    const uint8_t* x_codes;  // fp8
    const uint8_t* x_scales;
    const bf16* x;  // bf16, grouped
    bf16* y_bf16;
    float* y_f32;
    int rows, cols, n;
    int x_stride;    // elements from one token row of x to the next
    int group_rows;  // grouped: output rows that share one piece of x; else rows
};

__host__ __device__ inline int slices_of(int cols) {
    int blocks = ceil_div(cols, 32);
    return blocks >= 128 ? 16 : blocks >= 64 ? 8 : blocks >= 16 ? 4 : 1;
}

// Operands of one block of 32 for a fragment row: eight k of this thread's place in the quad, as
// four words of two.
struct Words {
    uint32_t v[4];
};

__device__ inline Words from_codes(uint2 raw) {
    return {{e4m3x2_to_half2(raw.x), e4m3x2_to_half2(raw.x >> 16), e4m3x2_to_half2(raw.y),
             e4m3x2_to_half2(raw.y >> 16)}};
}

// An E4M3 pair as bfloat16: sign, exponent and top 3 mantissa bits of a half, rebiased through fp32
// (exact).
__device__ inline uint32_t half2_to_bf16x2(uint32_t h) {
    float low, high;
    asm("{.reg .f16 a,b; mov.b32 {a,b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
        : "=f"(low), "=f"(high)
        : "r"(h));
    return (__float_as_uint(low) >> 16) | (__float_as_uint(high) & 0xffff0000u);
}

template <Kind kind>
struct Operands;

template <>
struct Operands<Kind::fp8> {
    uint2 raw;
    __device__ void load_w(const Job& job, int row, int block, int quad) {
        raw = row < job.rows ? __ldg(reinterpret_cast<const uint2*>(
                                   job.codes + int64_t(row) * job.cols + block * 32 + quad * 8))
                             : make_uint2(0, 0);
    }
    __device__ void load_x(const Job& job, int token, int, int block, int quad) {
        raw = token < job.n
                  ? __ldg(reinterpret_cast<const uint2*>(
                        job.x_codes + int64_t(token) * job.x_stride + block * 32 + quad * 8))
                  : make_uint2(0, 0);
    }
    __device__ Words w() const { return from_codes(raw); }
    __device__ Words x() const { return from_codes(raw); }
};

// Eight BF16 for any number of cols: the tail of a row is read element by element.
__device__ inline uint4 load_bf16x8(const bf16* row, int at, int cols) {
    const bf16* p = row + at;
    if (at + 8 <= cols && (reinterpret_cast<uintptr_t>(p) & 15) == 0)
        return __ldg(reinterpret_cast<const uint4*>(p));
    uint32_t v[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (at + i < cols) v[i / 2] |= uint32_t(p[i].bits) << (16 * (i % 2));
    return make_uint4(v[0], v[1], v[2], v[3]);
}

template <>
struct Operands<Kind::bf16> {
    uint4 raw;
    __device__ void load_w(const Job& job, int row, int block, int quad) {
        raw = row < job.rows
                  ? load_bf16x8(job.w + int64_t(row) * job.cols, block * 32 + quad * 8, job.cols)
                  : make_uint4(0, 0, 0, 0);
    }
    __device__ void load_x(const Job& job, int token, int, int block, int quad) {
        raw = token < job.n ? load_bf16x8(job.x + int64_t(token) * job.x_stride,
                                          block * 32 + quad * 8, job.cols)
                            : make_uint4(0, 0, 0, 0);
    }
    __device__ Words w() const { return {{raw.x, raw.y, raw.z, raw.w}}; }
    __device__ Words x() const { return w(); }
};

template <>
struct Operands<Kind::grouped> {
    uint4 raw;
    __device__ void load_w(const Job& job, int row, int block, int quad) {
        uint2 codes = row < job.rows
                          ? __ldg(reinterpret_cast<const uint2*>(
                                job.codes + int64_t(row) * job.cols + block * 32 + quad * 8))
                          : make_uint2(0, 0);
        raw.x = codes.x;
        raw.y = codes.y;
    }
    __device__ void load_x(const Job& job, int token, int group, int block, int quad) {
        raw = token < job.n ? __ldg(reinterpret_cast<const uint4*>(
                                  job.x + int64_t(token) * job.x_stride +
                                  int64_t(group) * job.cols + block * 32 + quad * 8))
                            : make_uint4(0, 0, 0, 0);
    }
    __device__ Words w() const {
        Words h = from_codes(make_uint2(raw.x, raw.y));
        return {{half2_to_bf16x2(h.v[0]), half2_to_bf16x2(h.v[1]), half2_to_bf16x2(h.v[2]),
                 half2_to_bf16x2(h.v[3])}};
    }
    __device__ Words x() const { return {{raw.x, raw.y, raw.z, raw.w}}; }
};

template <Kind kind>
__device__ inline void mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                           uint32_t b0, uint32_t b1) {
    if constexpr (kind == Kind::fp8)
        mma_f16(c, a0, a1, a2, a3, b0, b1);
    else
        mma_bf16(c, a0, a1, a2, a3, b0, b1);
}

// One block of 32 for a tile of 16 rows x 8 tokens, starting from zero.
template <Kind kind>
__device__ inline void block_product(float (&t)[4], const Words& low, const Words& high,
                                     const Words& b) {
    t[0] = t[1] = t[2] = t[3] = 0.0f;
    mma<kind>(t, low.v[0], high.v[0], low.v[1], high.v[1], b.v[0], b.v[1]);
    mma<kind>(t, low.v[2], high.v[2], low.v[3], high.v[3], b.v[2], b.v[3]);
}

// sum += t * scale of the token (columns 2 quad, 2 quad + 1) * scale of the weight tile. Products
// with powers of two are exact, so fusing changes nothing.
template <Kind kind>
__device__ inline void add_scaled(float (&sum)[4], const float (&t)[4], float s_w, float s_x0,
                                  float s_x1) {
    if constexpr (kind == Kind::bf16) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] = sum[i] + t[i];
    } else if constexpr (kind == Kind::grouped) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] = __fmaf_rn(t[i], s_w, sum[i]);
    } else {
        sum[0] = __fmaf_rn(t[0] * s_x0, s_w, sum[0]);
        sum[1] = __fmaf_rn(t[1] * s_x1, s_w, sum[1]);
        sum[2] = __fmaf_rn(t[2] * s_x0, s_w, sum[2]);
        sum[3] = __fmaf_rn(t[3] * s_x1, s_w, sum[3]);
    }
}

template <Kind kind>
__device__ inline float weight_scale(const Job& job, int row0, int block) {
    if constexpr (kind == Kind::bf16)
        return 1.0f;
    else
        return e8m0_to_float(__ldg(job.w_scales + int64_t(row0 / 32) * (job.cols / 32) + block));
}

template <Kind kind>
__device__ inline float token_scale(const Job& job, int token, int block) {
    if constexpr (kind != Kind::fp8)
        return 1.0f;
    else
        return token < job.n
                   ? e8m0_to_float(__ldg(job.x_scales + int64_t(token) * (job.cols / 32) + block))
                   : 0.0f;
}

__device__ inline void store(const Job& job, int row, int token, float value) {
    if (row >= job.rows || token >= job.n) return;
    int64_t at = int64_t(token) * job.rows + row;
    if (job.y_bf16)
        job.y_bf16[at] = to_bf16(value);
    else
        job.y_f32[at] = value;
}

// ---- few token rows -----------------------------------------------------------------------------
//
// A block of threads has 16 output rows, a warp has a slice and `tiles` times 8 tokens.

// FP8 activations of a block's tokens in shared memory: their codes, and their scales as numbers.
// Where they would take too much of it (codes == null) they are read in place.
constexpr int staged_max = 40 * 1024;
struct Staged {
    const uint8_t* codes;  // [tokens][cols]
    const float* scales;   // [tokens][cols / 32]
};
__host__ __device__ inline int staged_bytes(int cols, int tokens) {
    return tokens * (cols + cols / 32 * 4);
}

__device__ inline Staged stage(const Job& job, int token0, int tokens, uint8_t* memory) {
    float* scales = reinterpret_cast<float*>(memory + tokens * job.cols);
    int words = job.cols / 8, blocks = job.cols / 32, count = min(tokens, job.n - token0);
    const uint2* from = reinterpret_cast<const uint2*>(job.x_codes + int64_t(token0) * job.cols);
    for (int i = threadIdx.x; i < count * words; i += blockDim.x)
        reinterpret_cast<uint2*>(memory)[i] = __ldg(from + i);
    const uint8_t* bytes = job.x_scales + int64_t(token0) * blocks;
    for (int i = threadIdx.x; i < count * blocks; i += blockDim.x)
        scales[i] = e8m0_to_float(__ldg(bytes + i));
    return {memory, scales};
}

// Where this lane finds its eight k of block 0 for a token, and the scales of its two columns. A
// column beyond the last token reads the last token; its results are not stored.
struct Columns {
    const uint8_t* codes;
    const float *scale0, *scale1;
};
__device__ inline Columns columns_of(const Job& job, const Staged& staged, int first, int count) {
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4, blocks = job.cols / 32;
    return {staged.codes + min(first + g, count - 1) * job.cols + quad * 8,
            staged.scales + min(first + 2 * quad, count - 1) * blocks,
            staged.scales + min(first + 2 * quad + 1, count - 1) * blocks};
}

// Loads the weights of `depth` blocks before the first is used. Rows beyond the last read the last
// row.
template <Kind kind, int depth>
struct Ahead {
    Operands<kind> low[depth], high[depth];
    float scale[depth];

    __device__ void load(const Job& job, int row0, int base, int end) {
        if (base >= end) return;
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4, last = end - 1 - base;
        if constexpr (kind == Kind::fp8) {
            const uint8_t* from = job.codes + base * 32 + quad * 8;
            const uint8_t* a = from + int64_t(min(row0 + g, job.rows - 1)) * job.cols;
            const uint8_t* b = from + int64_t(min(row0 + g + 8, job.rows - 1)) * job.cols;
#pragma unroll
            for (int d = 0; d < depth; ++d) {
                low[d].raw = __ldg(reinterpret_cast<const uint2*>(a + min(d, last) * 32));
                high[d].raw = __ldg(reinterpret_cast<const uint2*>(b + min(d, last) * 32));
            }
        } else {
#pragma unroll
            for (int d = 0; d < depth; ++d) {
                low[d].load_w(job, row0 + g, base + min(d, last), quad);
                high[d].load_w(job, row0 + g + 8, base + min(d, last), quad);
            }
        }
        float mine = weight_scale<kind>(job, row0, base + min(lane, last));
#pragma unroll
        for (int d = 0; d < depth; ++d) scale[d] = __shfl_sync(0xffffffffu, mine, d);
    }
};

template <Kind kind, int tiles, int depth>
__device__ inline void skinny_slice(const Job& job, const Staged& staged, Ahead<kind, depth>& ahead,
                                    int row0, int token0, int begin, int end,
                                    float (&sum)[tiles][4]) {
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    int group = row0 / job.group_rows, count = min(job.n - token0, tiles * 8);
    bool in_shared = kind == Kind::fp8 && staged.codes != nullptr;
    Columns columns[tiles];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
        columns[tile] = columns_of(job, staged, tile * 8, count);
    for (int base = begin; base < end; base += depth) {
        if (base > begin) ahead.load(job, row0, base, end);
#pragma unroll
        for (int d = 0; d < depth; ++d) {
            if (base + d >= end) continue;
            int block = base + d;
            Words a = ahead.low[d].w(), b = ahead.high[d].w();
#pragma unroll
            for (int tile = 0; tile < tiles; ++tile) {
                int token = token0 + tile * 8;
                Operands<kind> x;
                float s0 = 1.0f, s1 = 1.0f, t[4];
                if constexpr (kind == Kind::fp8) {
                    if (in_shared) {
                        x.raw = *reinterpret_cast<const uint2*>(columns[tile].codes + block * 32);
                        s0 = columns[tile].scale0[block];
                        s1 = columns[tile].scale1[block];
                    }
                }
                if (!in_shared) {
                    x.load_x(job, token + g, group, block, quad);
                    s0 = token_scale<kind>(job, token + 2 * quad, block);
                    s1 = token_scale<kind>(job, token + 2 * quad + 1, block);
                }
                block_product<kind>(t, a, b, x.x());
                add_scaled<kind>(sum[tile], t, ahead.scale[d], s0, s1);
            }
        }
    }
}

template <Kind kind>
constexpr int depth_of = kind == Kind::fp8 ? 10 : 5;

// Adds the slices of `parts` results of 128 values in ascending order; the sum replaces the first.
__device__ inline void add_slices(float* shared, int slices, int values) {
    __syncthreads();
    for (int at = threadIdx.x; at < values; at += blockDim.x) {
        float total = shared[at];
        for (int s = 1; s < slices; ++s) total = total + shared[s * values + at];
        shared[at] = total;
    }
    __syncthreads();
}

// Place of (row, column) of a tile of 16 x 8 among its 128 values.
__device__ inline int tile_place(int row, int column) {
    return (row / 8 * 2 + column % 2) * warp + row % 8 * 4 + column / 2;
}

// Dynamic shared memory of a block of threads: partial sums, and the activations where they are
// staged.
template <Kind kind>
int shared_bytes(const Job& job, int values, int tokens) {
    int staged = kind == Kind::fp8 ? staged_bytes(job.cols, tokens < job.n ? tokens : job.n) : 0;
    if (staged > staged_max) staged = 0;
    return slices_of(job.cols) * values * int(sizeof(float)) + staged;
}

inline Job job_of(const LinearFp8& op) {
    Job job{};
    job.codes = op.w.codes;
    job.w_scales = op.w.scales;
    job.x_codes = op.x.codes;
    job.x_scales = op.x.scales;
    job.y_bf16 = op.y;
    job.rows = op.w.rows;
    job.cols = job.x_stride = op.w.cols;
    job.n = op.n;
    job.group_rows = ceil_div(op.w.rows, 32) * 32;
    return job;
}

inline Job job_of(const LinearBf16& op) {
    Job job{};
    job.w = op.w.data;
    job.x = op.x;
    job.y_bf16 = op.y_bf16;
    job.y_f32 = op.y_f32;
    job.rows = op.w.rows;
    job.cols = job.x_stride = op.w.cols;
    job.n = op.n;
    job.group_rows = ceil_div(op.w.rows, 32) * 32;
    return job;
}

inline Job job_of(const GroupedOutput& op) {
    Job job{};
    job.codes = op.w.codes;
    job.w_scales = op.w.scales;
    job.x = op.o;
    job.y_bf16 = op.t;
    job.rows = op.w.rows;
    job.cols = op.w.cols;
    job.n = op.n;
    job.x_stride = op.groups * op.w.cols;
    job.group_rows = op.w.rows / op.groups;
    return job;
}

}  // namespace
}  // namespace sluice::cuda
