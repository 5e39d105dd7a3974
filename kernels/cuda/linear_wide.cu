// Source of wide.cuh. Dense linears of many token rows: tiles staged in shared memory, three stages
// deep, with the additions of linear.cuh in the same order to the last bit.
//
// A block of threads owns `Tile::rows` output rows x `Tile::tokens` token rows, a warp a part of
// it. FP8 codes stay codes in shared memory and become halves on the way to the matrix unit. The
// scales of the token and of the weight tile are multiplied first. They are powers of two, and
// those of ActQuant are at least 2^-22, so the product is exact, at worst a subnormal number.

#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/pipeline.cuh"
#include "kernels/cuda/wide.cuh"

namespace sluice::cuda {
namespace {

constexpr int stages = 3;

// A warp's part: m x 16 output rows, n x 8 tokens; a block has row_warps x token_warps of them.
template <int m_, int n_, int row_warps_, int token_warps_, int resident_>
struct Tile {
    static constexpr int resident = resident_;  // blocks of threads per multiprocessor
    static constexpr int m = m_, n = n_, row_warps = row_warps_, token_warps = token_warps_;
    static constexpr int rows = m * 16 * row_warps, tokens = n * 8 * token_warps;
    static constexpr int threads = row_warps * token_warps * warp;
};
using Large = Tile<4, 4, 2, 2, 2>;
using Small = Tile<2, 4, 2, 2, 3>;

// Bytes that a block of 32 takes in one row of either operand, and blocks per stage.
template <Kind kind>
struct Layout;
template <>
struct Layout<Kind::fp8> {
    static constexpr int w = 32, x = 32, blocks = 2;
};
template <>
struct Layout<Kind::bf16> {
    static constexpr int w = 64, x = 64, blocks = 1;
};
template <>
struct Layout<Kind::grouped> {
    static constexpr int w = 32, x = 64, blocks = 1;
};

// Place of 16-byte piece `piece` of a row. With two blocks of 32 bytes per row, every other pair of
// rows swaps them, so that the four rows that a half-warp reads use different banks.
template <int bytes, int blocks>
__device__ inline int place(int row, int piece) {
    static_assert(blocks == 1 || (blocks == 2 && bytes == 32));
    int at = blocks == 1 ? piece : piece ^ (row & 2);
    return row * bytes * blocks + at * 16;
}

template <Kind kind, class T>
struct Shared {
    using L = Layout<kind>;
    static constexpr int w_bytes = T::rows * L::w * L::blocks;
    static constexpr int x_bytes = T::tokens * L::x * L::blocks;
    static constexpr int token_scales = kind == Kind::fp8 ? T::tokens * L::blocks : 0;
    static constexpr int row_scales = kind == Kind::bf16 ? 0 : T::rows / 32 * L::blocks;
    static constexpr int stage =
        w_bytes + x_bytes + (token_scales + ceil_div(row_scales, 4) * 4) * int(sizeof(float));
    static constexpr int out_stride = T::rows + 8;  // of a token, in the finished tile
    static constexpr int out = T::tokens * out_stride * int(sizeof(bf16));
    static constexpr int bytes = stages * stage > out ? stages* stage : out;

    std::byte* memory;
    __device__ std::byte* w(int at) const { return memory + at * stage; }
    __device__ std::byte* x(int at) const { return w(at) + w_bytes; }
    __device__ float* x_scale(int at) const { return reinterpret_cast<float*>(x(at) + x_bytes); }
    __device__ float* w_scale(int at) const { return x_scale(at) + token_scales; }
};

// The 16-byte pieces that a thread copies from `rows` rows of one operand: the same piece of every
// `step`th row. Rows beyond the last read the last row, and blocks beyond the end the last block;
// their results are not stored.
template <int rows, int bytes, int blocks, int threads>
struct Copier {
    static constexpr int pieces = bytes * blocks / 16, step = threads / pieces;
    static_assert(rows % step == 0 && step % 4 == 0);
    const std::byte* from;
    uint32_t offset[rows / step];  // of the rows
    int target;

    __device__ Copier(const void* operand, uint32_t stride, int first, int last)
        : from(static_cast<const std::byte*>(operand)) {
        int row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
#pragma unroll
        for (int i = 0; i < rows / step; ++i)
            offset[i] = uint32_t(min(first + row + i * step, last)) * stride;
        target = place<bytes, blocks>(row, piece);
    }
    __device__ void copy(std::byte* to, int block, int last) const {
        int piece = threadIdx.x % pieces * 16;
        const std::byte* at = from + min(block + piece / bytes, last) * bytes + piece % bytes;
#pragma unroll
        for (int i = 0; i < rows / step; ++i)
            copy16(to + target + i * step * bytes * blocks, at + offset[i]);
    }
};

// What one block of threads works on.
template <Kind kind, class T>
struct Work {
    using L = Layout<kind>;
    using S = Shared<kind, T>;
    const Job& job;
    S shared;
    int row0, token0, blocks;
    Copier<T::rows, L::w, L::blocks, T::threads> w;
    Copier<T::tokens, L::x, L::blocks, T::threads> x;

    __device__ Work(const Job& job_, std::byte* memory, int row0_, int token0_)
        : job(job_),
          shared{memory},
          row0(row0_),
          token0(token0_),
          blocks(job_.cols / 32),
          w(kind == Kind::bf16 ? static_cast<const void*>(job_.w) : job_.codes,
            kind == Kind::bf16 ? job_.cols * 2u : job_.cols, row0_, job_.rows - 1),
          x(kind == Kind::fp8 ? static_cast<const void*>(job_.x_codes)
                              : job_.x + int64_t(row0_ / job_.group_rows) * job_.cols,
            kind == Kind::fp8 ? job_.x_stride : job_.x_stride * 2u, token0_, job_.n - 1) {}

    __device__ void load(int at, int block) const {
        w.copy(shared.w(at), block, blocks - 1);
        x.copy(shared.x(at), block, blocks - 1);
    }
    // Scale bytes go through registers: one of the tokens' per thread, and one of the rows' in a
    // few threads.
    struct Bytes {
        uint8_t x, w;
    };
    __device__ Bytes load_scales(int block) const {
        Bytes bytes{};
        int per_row = job.cols / 32, i = threadIdx.x;
        if constexpr (kind == Kind::fp8) {
            static_assert(S::token_scales <= T::threads);
            int token = min(token0 + i % T::tokens, job.n - 1);
            if (i < S::token_scales)
                bytes.x = __ldg(job.x_scales + int64_t(token) * per_row +
                                min(block + i / T::tokens, blocks - 1));
        }
        if constexpr (kind != Kind::bf16) {
            if (i >= S::row_scales) return bytes;
            int tile = min(row0 + i % (T::rows / 32) * 32, job.rows - 1) / 32;
            bytes.w = __ldg(job.w_scales + int64_t(tile) * per_row +
                            min(block + i / (T::rows / 32), blocks - 1));
        }
        return bytes;
    }
    __device__ void store_scales(int at, Bytes bytes) const {
        if constexpr (kind == Kind::fp8) shared.x_scale(at)[threadIdx.x] = e8m0_to_float(bytes.x);
        if constexpr (kind != Kind::bf16)
            if (threadIdx.x < S::row_scales)
                shared.w_scale(at)[threadIdx.x] = e8m0_to_float(bytes.w);
    }
};

// Operands of a fragment row from shared memory: this thread's eight k.
template <bool codes, int blocks>
__device__ inline Words words_at(const std::byte* rows, int row, int block, int quad) {
    if constexpr (codes) {
        return from_codes(*reinterpret_cast<const uint2*>(
            rows + place<32, blocks>(row, block * 2 + quad / 2) + quad % 2 * 8));
    } else {
        uint4 v = *reinterpret_cast<const uint4*>(rows + place<64, 1>(row, quad));
        return {{v.x, v.y, v.z, v.w}};
    }
}
template <Kind kind>
__device__ inline Words weight_words(const std::byte* rows, int row, int block, int quad) {
    Words h = words_at<kind != Kind::bf16, Layout<kind>::blocks>(rows, row, block, quad);
    if constexpr (kind == Kind::grouped)
        return {{half2_to_bf16x2(h.v[0]), half2_to_bf16x2(h.v[1]), half2_to_bf16x2(h.v[2]),
                 half2_to_bf16x2(h.v[3])}};
    return h;
}

template <Kind kind, class T>
__device__ inline void block_of_tile(const Shared<kind, T>& shared, int at, int block,
                                     float (&part)[T::m][T::n][4]) {
    constexpr int per_stage = Layout<kind>::blocks;
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    int row = w % T::row_warps * T::m * 16, token = w / T::row_warps * T::n * 8;
    Words x[T::n];
    float2 s_x[T::n];
#pragma unroll
    for (int n = 0; n < T::n; ++n) {
        x[n] = words_at<kind == Kind::fp8, per_stage>(shared.x(at), token + n * 8 + g, block, quad);
        if constexpr (kind == Kind::fp8)
            s_x[n] = *reinterpret_cast<const float2*>(shared.x_scale(at) + block * T::tokens +
                                                      token + n * 8 + 2 * quad);
    }
#pragma unroll
    for (int m = 0; m < T::m; ++m) {
        Words low = weight_words<kind>(shared.w(at), row + m * 16 + g, block, quad);
        Words high = weight_words<kind>(shared.w(at), row + m * 16 + g + 8, block, quad);
        float s_w = 1.0f, t[T::n][4] = {};
        if constexpr (kind != Kind::bf16)
            s_w = shared.w_scale(at)[block * (T::rows / 32) + (row + m * 16) / 32];
            // The result of each instruction is needed long after it was started.
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int n = 0; n < T::n; ++n)
                mma<kind>(t[n], low.v[2 * half], high.v[2 * half], low.v[2 * half + 1],
                          high.v[2 * half + 1], x[n].v[2 * half], x[n].v[2 * half + 1]);
#pragma unroll
        for (int n = 0; n < T::n; ++n) {
            float s[2] = {s_w, s_w};
            if constexpr (kind == Kind::fp8) {
                s[0] = s_x[n].x * s_w;
                s[1] = s_x[n].y * s_w;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& sum = part[m][n][i];
                sum = kind == Kind::bf16 ? sum + t[n][i] : __fmaf_rn(t[n][i], s[i % 2], sum);
            }
        }
    }
}

// Stores the finished tile through shared memory, so that the outputs of a token leave in whole
// pieces.
template <Kind kind, class T>
__device__ inline void store_tile(const Work<kind, T>& work, const float (&total)[T::m][T::n][4]) {
    using S = Shared<kind, T>;
    const Job& job = work.job;
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    int row = w % T::row_warps * T::m * 16 + g, token = w / T::row_warps * T::n * 8 + 2 * quad;
    bf16* out = reinterpret_cast<bf16*>(work.shared.memory);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < T::m; ++m)
#pragma unroll
        for (int n = 0; n < T::n; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int r = row + m * 16 + (i / 2) * 8, t = token + n * 8 + i % 2;
                if (job.y_bf16)
                    out[t * S::out_stride + r] = to_bf16(total[m][n][i]);
                else
                    store(job, work.row0 + r, work.token0 + t, total[m][n][i]);
            }
    if (!job.y_bf16) return;
    __syncthreads();
    bool whole = job.rows % 8 == 0 && (reinterpret_cast<uintptr_t>(job.y_bf16) & 15) == 0;
    for (int i = threadIdx.x; i < T::tokens * (T::rows / 8); i += T::threads) {
        int t = i / (T::rows / 8), r = i % (T::rows / 8) * 8;
        if (work.token0 + t >= job.n) break;
        const bf16* from = out + t * S::out_stride + r;
        bf16* to = job.y_bf16 + int64_t(work.token0 + t) * job.rows + work.row0 + r;
        if (whole && work.row0 + r < job.rows) {
            *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
            continue;
        }
        for (int j = 0; j < 8 && work.row0 + r + j < job.rows; ++j) to[j] = from[j];
    }
}

template <Kind kind, class T>
__global__ void __launch_bounds__(T::threads, T::resident)
    wide_kernel(__grid_constant__ const Job job) {
    constexpr int per_stage = Layout<kind>::blocks;
    extern __shared__ __align__(128) std::byte memory[];
    int blocks = job.cols / 32, count = ceil_div(blocks, per_stage);
    Work<kind, T> work(job, memory, blockIdx.y * T::rows, blockIdx.x * T::tokens);
    for (int s = 0; s < stages - 1; ++s) {
        if (s < count) {
            work.load(s, s * per_stage);
            work.store_scales(s, work.load_scales(s * per_stage));
        }
        copies_end();
    }
    float total[T::m][T::n][4] = {}, part[T::m][T::n][4] = {};
    int per_slice = ceil_div(blocks, slices_of(job.cols)), left = per_slice, at = 0;
    bool first = true;
    for (int s = 0; s < count; ++s) {
        copies_wait<stages - 2>();
        __syncthreads();  // stage s is here; nobody reads the one that is loaded now
        int next = s + stages - 1, to = at == 0 ? stages - 1 : at - 1;
        typename Work<kind, T>::Bytes bytes{};
        if (next < count) {
            work.load(to, next * per_stage);
            bytes = work.load_scales(next * per_stage);
        }
        copies_end();
#pragma unroll 1
        for (int b = 0; b < per_stage; ++b) {
            int block = s * per_stage + b;
            if (block >= blocks) break;
            block_of_tile<kind, T>(work.shared, at, b, part);
            if (--left > 0 && block + 1 < blocks) continue;
            left = per_slice;
#pragma unroll
            for (int i = 0; i < T::m * T::n * 4; ++i) {
                float& p = part[i / (T::n * 4)][i / 4 % T::n][i % 4];
                float& sum = total[i / (T::n * 4)][i / 4 % T::n][i % 4];
                sum = first ? p : sum + p;
                p = 0.0f;
            }
            first = false;
        }
        if (next < count) work.store_scales(to, bytes);
        at = at == stages - 1 ? 0 : at + 1;
    }
    store_tile(work, total);
}

template <Kind kind, class T>
void launch_tiles(const Job& job, Lane lane) {
    constexpr int bytes = Shared<kind, T>::bytes;
    static_assert(bytes <= 64 * 1024);  // the limit of Turing
    launch_plain(wide_kernel<kind, T>,
                 dim3(ceil_div(job.n, T::tokens), ceil_div(job.rows, T::rows)), T::threads, bytes,
                 lane, job);
}

// The choice of tiles never changes a bit. The last round of blocks may leave part of the device
// idle: Large tiles are 7 % faster if that round lets them.
bool large_pays(const Job& job) {
    int device = 0, processors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    auto rounds = [&](int rows, int tokens, int resident) {
        int64_t tiles = int64_t(ceil_div(job.rows, rows)) * ceil_div(job.n, tokens);
        return double(ceil_div<int64_t>(tiles, resident * processors)) * resident * rows * tokens;
    };
    return rounds(Large::rows, Large::tokens, Large::resident) <
           1.07 * rounds(Small::rows, Small::tokens, Small::resident);
}

template <Kind kind>
bool wide(const Job& job, Lane lane) {
    auto fits = [&](int rows) { return job.group_rows >= job.rows || job.group_rows % rows == 0; };
    uintptr_t addresses =
        reinterpret_cast<uintptr_t>(job.codes) | reinterpret_cast<uintptr_t>(job.w) |
        reinterpret_cast<uintptr_t>(job.x_codes) | reinterpret_cast<uintptr_t>(job.x);
    int64_t x_bytes = int64_t(job.n) * job.x_stride * 2, w_bytes = int64_t(job.rows) * job.cols * 2;
    if (job.cols % 32 || job.x_stride % 16 || addresses % 16 || !fits(Small::rows) ||
        x_bytes > UINT32_MAX || w_bytes > UINT32_MAX)
        return false;
    if (fits(Large::rows) && large_pays(job))
        launch_tiles<kind, Large>(job, lane);
    else
        launch_tiles<kind, Small>(job, lane);
    return true;
}

}  // namespace

bool launch_wide(const LinearFp8& op, Lane lane) {
    return wide<Kind::fp8>(job_of(op), lane);
}
bool launch_wide(const LinearBf16& op, Lane lane) {
    return wide<Kind::bf16>(job_of(op), lane);
}
bool launch_wide(const GroupedOutput& op, Lane lane) {
    return wide<Kind::grouped>(job_of(op), lane);
}

}  // namespace sluice::cuda
