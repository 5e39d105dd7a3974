// Dense linears on tensor cores, batch-invariant: one order of additions over K for 1 row or 4096.
//
// K is cut in blocks of 32 and in `slices` of whole blocks; how many depends on the matrix alone.
// Inside a block two k = 16 matrix instructions start from zero; their result, times the scales, is
// added to the slice's sum, blocks ascending; slices are added ascending. The skinny kernel (few
// token rows) gives each slice a warp, the wide one walks them in turn: the same additions.
//
// FP8 codes go to halves in registers (exact), never expanded in memory. Inside a block the four
// threads of a quad take eight neighbouring k each, the same for both operands, so that loads are
// whole words; a sum over k does not mind.
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

// Operands of one block of 32 for a fragment row: eight k of this thread's quad position, as four
// words of two.
struct Words {
    uint32_t v[4];
};

__device__ inline Words from_codes(uint2 raw) {
    return {{e4m3x2_to_half2(raw.x), e4m3x2_to_half2(raw.x >> 16), e4m3x2_to_half2(raw.y),
             e4m3x2_to_half2(raw.y >> 16)}};
}

// An E4M3 pair as bfloat16: a half's sign, exponent and top 3 mantissa bits, rebiased through fp32
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
        raw =
            row < job.rows
                ? __ldg((const uint2*)(job.codes + (int64_t)row * job.cols + block * 32 + quad * 8))
                : make_uint2(0, 0);
    }
    __device__ void load_x(const Job& job, int token, int, int block, int quad) {
        raw = token < job.n ? __ldg((const uint2*)(job.x_codes + (int64_t)token * job.x_stride +
                                                   block * 32 + quad * 8))
                            : make_uint2(0, 0);
    }
    __device__ Words w() const { return from_codes(raw); }
    __device__ Words x() const { return from_codes(raw); }
};

// Eight BF16; cols of any number: the tail of a row is read element by element.
__device__ inline uint4 load_bf16x8(const bf16* row, int at, int cols) {
    const bf16* p = row + at;
    if (at + 8 <= cols && ((uintptr_t)p & 15) == 0) return __ldg((const uint4*)p);
    uint32_t v[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (at + i < cols) v[i / 2] |= (uint32_t)p[i].bits << (16 * (i % 2));
    return make_uint4(v[0], v[1], v[2], v[3]);
}

template <>
struct Operands<Kind::bf16> {
    uint4 raw;
    __device__ void load_w(const Job& job, int row, int block, int quad) {
        raw = row < job.rows
                  ? load_bf16x8(job.w + (int64_t)row * job.cols, block * 32 + quad * 8, job.cols)
                  : make_uint4(0, 0, 0, 0);
    }
    __device__ void load_x(const Job& job, int token, int, int block, int quad) {
        raw = token < job.n ? load_bf16x8(job.x + (int64_t)token * job.x_stride,
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
        uint2 codes =
            row < job.rows
                ? __ldg((const uint2*)(job.codes + (int64_t)row * job.cols + block * 32 + quad * 8))
                : make_uint2(0, 0);
        raw.x = codes.x;
        raw.y = codes.y;
    }
    __device__ void load_x(const Job& job, int token, int group, int block, int quad) {
        raw = token < job.n
                  ? __ldg((const uint4*)(job.x + (int64_t)token * job.x_stride +
                                         (int64_t)group * job.cols + block * 32 + quad * 8))
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

// One block of 32 for a tile of 16 rows x 8 tokens, from zero.
template <Kind kind>
__device__ inline void block_product(float (&t)[4], const Words& low, const Words& high,
                                     const Words& b) {
    t[0] = t[1] = t[2] = t[3] = 0.0f;
    mma<kind>(t, low.v[0], high.v[0], low.v[1], high.v[1], b.v[0], b.v[1]);
    mma<kind>(t, low.v[2], high.v[2], low.v[3], high.v[3], b.v[2], b.v[3]);
}

// sum += t * scale of the token (columns 2 quad, 2 quad + 1) * scale of the weight tile. Products
// with powers of two are exact, so the fused form changes nothing.
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
        return e8m0_to_float(__ldg(job.w_scales + (int64_t)(row0 / 32) * (job.cols / 32) + block));
}

template <Kind kind>
__device__ inline float token_scale(const Job& job, int token, int block) {
    if constexpr (kind != Kind::fp8)
        return 1.0f;
    else
        return token < job.n
                   ? e8m0_to_float(__ldg(job.x_scales + (int64_t)token * (job.cols / 32) + block))
                   : 0.0f;
}

__device__ inline void store(const Job& job, int row, int token, float value) {
    if (row >= job.rows || token >= job.n) return;
    int64_t at = (int64_t)token * job.rows + row;
    if (job.y_bf16)
        job.y_bf16[at] = to_bf16(value);
    else
        job.y_f32[at] = value;
}

// ---- few token rows: 16 output rows a block, a warp a slice, `tiles` times 8 tokens
// ------------------

// FP8 activations of the tokens of a block in shared memory: their codes, and their scales as
// numbers. Where they would take too much of it (codes == null) they are read in place.
constexpr int staged_max = 40 * 1024;
struct Staged {
    const uint8_t* codes;  // [tokens][cols]
    const float* scales;   // [tokens][cols / 32]
};
__host__ __device__ inline int staged_bytes(int cols, int tokens) {
    return tokens * (cols + cols / 32 * 4);
}

__device__ inline Staged stage(const Job& job, int token0, int tokens, uint8_t* memory) {
    float* scales = (float*)(memory + tokens * job.cols);
    int words = job.cols / 8, blocks = job.cols / 32, count = min(tokens, job.n - token0);
    const uint2* from = (const uint2*)(job.x_codes + (int64_t)token0 * job.cols);
    for (int i = threadIdx.x; i < count * words; i += blockDim.x)
        ((uint2*)memory)[i] = __ldg(from + i);
    const uint8_t* bytes = job.x_scales + (int64_t)token0 * blocks;
    for (int i = threadIdx.x; i < count * blocks; i += blockDim.x)
        scales[i] = e8m0_to_float(__ldg(bytes + i));
    return {memory, scales};
}

template <Kind kind>
__device__ inline void load_token(Operands<kind>& x, const Job& job, const Staged& staged,
                                  int token0, int token, int group, int block, int quad) {
    if constexpr (kind == Kind::fp8) {
        if (staged.codes) {
            x.raw = token < job.n ? *(const uint2*)(staged.codes + (token - token0) * job.cols +
                                                    block * 32 + quad * 8)
                                  : make_uint2(0, 0);
            return;
        }
    }
    x.load_x(job, token, group, block, quad);
}
template <Kind kind>
__device__ inline float scale_of(const Job& job, const Staged& staged, int token0, int token,
                                 int block) {
    if constexpr (kind == Kind::fp8) {
        if (staged.codes)
            return token < job.n ? staged.scales[(token - token0) * (job.cols / 32) + block] : 0.0f;
    }
    return token_scale<kind>(job, token, block);
}

// The weights of `depth` blocks are on their way before the first is used.
template <Kind kind, int depth>
struct Ahead {
    Operands<kind> low[depth], high[depth];
    float scale[depth];

    __device__ void load(const Job& job, int row0, int base, int end) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
#pragma unroll
        for (int d = 0; d < depth; ++d) {
            if (base + d >= end) continue;
            low[d].load_w(job, row0 + g, base + d, quad);
            high[d].load_w(job, row0 + g + 8, base + d, quad);
            scale[d] = weight_scale<kind>(job, row0, base + d);
        }
    }
};

template <Kind kind, int tiles, int depth>
__device__ inline void skinny_slice(const Job& job, const Staged& staged, Ahead<kind, depth>& ahead,
                                    int row0, int token0, int begin, int end,
                                    float (&sum)[tiles][4]) {
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    int group = row0 / job.group_rows;
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
                load_token<kind>(x, job, staged, token0, token + g, group, block, quad);
                float t[4];
                block_product<kind>(t, a, b, x.x());
                add_scaled<kind>(sum[tile], t, ahead.scale[d],
                                 scale_of<kind>(job, staged, token0, token + 2 * quad, block),
                                 scale_of<kind>(job, staged, token0, token + 2 * quad + 1, block));
            }
        }
    }
}

template <Kind kind>
constexpr int depth_of = kind == Kind::fp8 ? 10 : 5;

// Adds the slices of `parts` results of 128 values, in ascending order, in place of the first.
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

// A second matrix with the same activations may follow the first one's tiles.
template <Kind kind, int tiles>
__global__ void skinny_kernel(Job a, Job b, int a_tiles) {
    extern __shared__ __align__(16) float shared[];  // [slices][tiles][128], then the activations
    const Job& job = (int)blockIdx.x < a_tiles ? a : b;
    int slices = blockDim.x / warp, w = threadIdx.x / warp, lane = threadIdx.x % warp;
    int blocks = ceil_div(job.cols, 32), per_slice = ceil_div(blocks, slices);
    int row0 = ((int)blockIdx.x < a_tiles ? blockIdx.x : blockIdx.x - a_tiles) * 16;
    int token0 = blockIdx.y * tiles * 8, begin = w * per_slice,
        end = min(blocks, begin + per_slice);
    Ahead<kind, depth_of<kind>> ahead;
    ahead.load(job, row0, begin, end);
    Staged staged{};
    if constexpr (kind == Kind::fp8) {
        int count = min(job.n, tiles * 8);
        if (staged_bytes(job.cols, count) <= staged_max)
            staged = stage(job, token0, count, (uint8_t*)(shared + slices * tiles * 128));
        __syncthreads();
    }
    float sum[tiles][4] = {};
    skinny_slice<kind, tiles>(job, staged, ahead, row0, token0, begin, end, sum);
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            shared[(w * tiles + tile) * 128 + i * warp + lane] = sum[tile][i];
    add_slices(shared, slices, tiles * 128);
    for (int at = threadIdx.x; at < tiles * 128; at += blockDim.x) {
        int tile = at / 128, i = at % 128 / warp, l = at % warp;
        store(job, row0 + l / 4 + (i / 2) * 8, token0 + tile * 8 + 2 * (l % 4) + i % 2, shared[at]);
    }
}

// ---- 32 output rows a block, quantised on the way out: up to 8 token rows
// --------------------------

// Rows row0 .. row0 + 31 of `count` jobs to shared [job][2][128], summed.
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
            staged = stage(jobs[0], 0, jobs[0].n, (uint8_t*)(shared + slices * count * 256));
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

__global__ void grouped_quant_kernel(Job job, QuantRows out) {
    extern __shared__ float shared[];
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp;
    const Job jobs[1] = {job};
    rows32<Kind::grouped, 1>(jobs, row0, shared);
    for (int token = threadIdx.x / warp; token < job.n; token += blockDim.x / warp) {
        float v = round_bf16(shared[lane / 16 * 128 + tile_place(lane % 16, token)]);
        job.y_bf16[(int64_t)token * job.rows + row0 + lane] = to_bf16(v);
        store_lane(v, out, (int64_t)token * job.rows + row0 + lane);
    }
}

__global__ void gate_up_kernel(Job gate, Job up, QuantRows out, const float* weights, float limit) {
    extern __shared__ float shared[];
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp;
    const Job jobs[2] = {gate, up};
    rows32<Kind::fp8, 2>(jobs, row0, shared);
    for (int token = threadIdx.x / warp; token < gate.n; token += blockDim.x / warp) {
        int at = lane / 16 * 128 + tile_place(lane % 16, token);
        float g = round_bf16(shared[at]), u = round_bf16(shared[256 + at]);
        store_lane(swiglu_value(g, u, weights ? weights + token : nullptr, limit), out,
                   (int64_t)token * gate.rows + row0 + lane);
    }
}

// ---- many token rows: 64 output rows x 64 tokens a block of 4 warps, each 32 x 32
// -------------------

constexpr int wide_rows = 64, wide_tokens = 64;

template <Kind kind>
__global__ void __launch_bounds__(128) wide_kernel(Job job) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    int row0 = blockIdx.x * wide_rows + (w % 2) * 32,
        token0 = blockIdx.y * wide_tokens + (w / 2) * 32;
    int blocks = ceil_div(job.cols, 32), slices = slices_of(job.cols),
        per_slice = ceil_div(blocks, slices);
    int group = row0 / job.group_rows;
    float total[2][4][4], part[2][4][4] = {};
    for (int block = 0; block < blocks; ++block) {
        Words a[2][2];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            Operands<kind> low, high;
            low.load_w(job, row0 + m * 16 + g, block, quad);
            high.load_w(job, row0 + m * 16 + g + 8, block, quad);
            a[m][0] = low.w();
            a[m][1] = high.w();
        }
        float s_w = row0 < job.rows ? weight_scale<kind>(job, row0, block) : 0.0f;
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
            int token = token0 + tile * 8;
            Operands<kind> x;
            x.load_x(job, token + g, group, block, quad);
            Words b = x.x();
            float s0 = token_scale<kind>(job, token + 2 * quad, block);
            float s1 = token_scale<kind>(job, token + 2 * quad + 1, block);
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                float t[4];
                block_product<kind>(t, a[m][0], a[m][1], b);
                add_scaled<kind>(part[m][tile], t, s_w, s0, s1);
            }
        }
        if ((block + 1) % per_slice == 0 || block + 1 == blocks) {
            bool first = block < per_slice;
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                float& p = part[i / 16][i / 4 % 4][i % 4];
                float& to = total[i / 16][i / 4 % 4][i % 4];
                to = first ? p : to + p;
                p = 0.0f;
            }
        }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int tile = 0; tile < 4; ++tile)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                store(job, row0 + m * 16 + g + (i / 2) * 8, token0 + tile * 8 + 2 * quad + i % 2,
                      total[m][tile][i]);
}

// Dynamic shared memory of a block: partial sums, and the activations where they are staged.
template <Kind kind>
int shared_bytes(const Job& job, int values, int tokens) {
    int staged = kind == Kind::fp8 ? staged_bytes(job.cols, tokens < job.n ? tokens : job.n) : 0;
    if (staged > staged_max) staged = 0;
    return slices_of(job.cols) * values * (int)sizeof(float) + staged;
}
template <class Kernel>
void allow(Kernel* kernel, int bytes) {
    if (bytes > 48 * 1024)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

template <Kind kind, int tiles>
void skinny(const Job& job, cudaStream_t stream) {
    int bytes = shared_bytes<kind>(job, tiles * 128, tiles * 8);
    allow(skinny_kernel<kind, tiles>, bytes);
    dim3 grid(ceil_div(job.rows, 16), ceil_div(job.n, tiles * 8));
    skinny_kernel<kind, tiles>
        <<<grid, slices_of(job.cols) * warp, bytes, stream>>>(job, job, grid.x);
}

template <Kind kind>
void linear(const Job& job, cudaStream_t stream) {
    if (!job.n || !job.rows) return;
    // A wide tile's 32 rows must lie in one group and one scale tile; odd groups stay with the
    // skinny kernel.
    bool wide = job.n > 32 && job.group_rows % 32 == 0;
    if (wide)
        wide_kernel<kind>
            <<<dim3(ceil_div(job.rows, wide_rows), ceil_div(job.n, wide_tokens)), 128, 0, stream>>>(
                job);
    else if (job.n <= 8)
        skinny<kind, 1>(job, stream);
    else
        skinny<kind, 2>(job, stream);
}

Job job_of(const LinearFp8& op) {
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

Job job_of(const GroupedOutput& op) {
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

void launch(const LinearFp8& op, cudaStream_t stream) {
    linear<Kind::fp8>(job_of(op), stream);
}

void launch(const LinearBf16& op, cudaStream_t stream) {
    Job job{};
    job.w = op.w.data;
    job.x = op.x;
    job.y_bf16 = op.y_bf16;
    job.y_f32 = op.y_f32;
    job.rows = op.w.rows;
    job.cols = job.x_stride = op.w.cols;
    job.n = op.n;
    job.group_rows = ceil_div(op.w.rows, 32) * 32;
    linear<Kind::bf16>(job, stream);
}

// A tile of 16 rows lies in one group: the rank is a multiple of 16 (checked when shapes are
// reserved).
void launch(const GroupedOutput& op, cudaStream_t stream) {
    linear<Kind::grouped>(job_of(op), stream);
}

// True if one launch can do it: few token rows, the same activations.
bool launch(const LinearFp8Pair& op, cudaStream_t stream) {
    if (op.a.n > 8 || op.a.n != op.b.n || op.a.w.cols != op.b.w.cols ||
        op.a.x.codes != op.b.x.codes)
        return false;
    if (!op.a.n) return true;
    Job a = job_of(op.a), b = job_of(op.b);
    int tiles = ceil_div(a.rows, 16), bytes = shared_bytes<Kind::fp8>(a, 128, 8);
    allow(skinny_kernel<Kind::fp8, 1>, bytes);
    skinny_kernel<Kind::fp8, 1>
        <<<tiles + ceil_div(b.rows, 16), slices_of(a.cols) * warp, bytes, stream>>>(a, b, tiles);
    return true;
}

bool launch(const GroupedOutputQuant& op, cudaStream_t stream) {
    Job job = job_of(op.output);
    if (job.n > 8 || job.group_rows % 32 || op.quant.x != op.output.t) return false;
    int bytes = shared_bytes<Kind::grouped>(job, 256, 8);
    if (job.n)
        grouped_quant_kernel<<<job.rows / 32, slices_of(job.cols) * warp, bytes, stream>>>(
            job, op.quant.out);
    return true;
}

bool launch(const GateUp& op, cudaStream_t stream) {
    Job gate = job_of(op.gate), up = job_of(op.up);
    if (gate.n > 8 || gate.rows % 32 || gate.rows != up.rows || gate.cols != up.cols ||
        op.swiglu.gate != op.gate.y)
        return false;
    int bytes = shared_bytes<Kind::fp8>(gate, 512, 8);
    allow(gate_up_kernel, bytes);
    if (gate.n)
        gate_up_kernel<<<gate.rows / 32, slices_of(gate.cols) * warp, bytes, stream>>>(
            gate, up, op.swiglu.out, op.swiglu.weights, op.swiglu.limit);
    return true;
}

}  // namespace sluice::cuda
