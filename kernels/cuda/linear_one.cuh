// What the kernels of one token row share: weights on their way, staged activations, launches.
//
// A warp owns one slice of one tile of 16 output rows and requests all its weights before it looks
// at the first (for weights it need not wait for the kernel before). For the lengths below, the
// number of blocks in a slice is known at compile time; other shapes stay with the skinny kernel.
// Activations are staged as halves (bfloat16 where the model has them in that form), the same in
// all eight columns of the matrix unit: column 0 is the result.
#pragma once

#include "kernels/cuda/linear.cuh"

namespace sluice::cuda {
namespace {

// An E4M3 pair as bfloat16, exact: the bits of the code in place are value * 2^-120.
__device__ inline uint32_t e4m3x2_to_bf16x2(uint32_t codes) {
#if __CUDA_ARCH__ >= 800
    uint32_t spread = __byte_perm(codes, 0, 0x1404);
    uint32_t bits = (spread & 0x80008000u) | ((spread & 0x7f007f00u) >> 4), out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(out)
        : "r"(bits), "r"(0x7b807b80u), "r"(0x80008000u));
    return out;
#else
    return half2_to_bf16x2(e4m3x2_to_half2(codes));
#endif
}

template <Kind kind>
struct Form {
    using Raw = uint2;
    static constexpr int block_bytes = 32;
};
template <>
struct Form<Kind::bf16> {
    using Raw = uint4;
    static constexpr int block_bytes = 64;
};

template <Kind kind>
__device__ inline Words words(const typename Form<kind>::Raw& raw) {
    if constexpr (kind == Kind::bf16)
        return {{raw.x, raw.y, raw.z, raw.w}};
    else if constexpr (kind == Kind::fp8)
        return from_codes(raw);
    else
        return {{e4m3x2_to_bf16x2(raw.x), e4m3x2_to_bf16x2(raw.x >> 16), e4m3x2_to_bf16x2(raw.y),
                 e4m3x2_to_bf16x2(raw.y >> 16)}};
}

// A matrix in the form that the kernels of this file need.
struct Matrix {
    const std::byte* weights;
    const uint8_t* scales;
    int blocks;  // blocks of 32 per row
};

// The activations in memory; for grouped ones, those of one group.
struct Vector {
    const std::byte* values;  // fp8: codes; else bfloat16
    const uint8_t* scales;
};

constexpr int staged_block = 64 + int(sizeof(float));
__host__ __device__ constexpr int align16(int bytes) {
    return (bytes + 15) / 16 * 16;
}

// The same in shared memory: 64 bytes for the 32 values of a block, and its scale.
struct Staged1 {
    const uint4* x;
    const float* scale;
};

template <Kind kind>
__device__ inline Staged1 stage_one(const Vector& from, int blocks, std::byte* memory) {
    auto* x = reinterpret_cast<uint4*>(memory);
    auto* scale = reinterpret_cast<float*>(x + blocks * 4);
    for (int i = threadIdx.x; i < blocks * 4; i += blockDim.x) {
        if constexpr (kind == Kind::fp8) {
            Words w = from_codes(reinterpret_cast<const uint2*>(from.values)[i]);
            x[i] = make_uint4(w.v[0], w.v[1], w.v[2], w.v[3]);
        } else {
            x[i] = reinterpret_cast<const uint4*>(from.values)[i];
        }
    }
    if constexpr (kind == Kind::fp8)
        for (int i = threadIdx.x; i < blocks; i += blockDim.x)
            scale[i] = e8m0_to_float(from.scales[i]);
    return {x, scale};
}

// Sums of rows g and g + 8.
struct Pair {
    float top = 0.0f, bottom = 0.0f;

    __device__ void store(float* sums) const {
        int lane = threadIdx.x % warp;
        if (lane % 4 == 0) {
            sums[lane / 4] = top;
            sums[lane / 4 + 8] = bottom;
        }
    }
};

// Adds a slice of a tile: low(d) and high(d) return this thread's part of block d of rows g and g +
// 8. `scale` is that of block `lane`.
template <Kind kind, int length, class Low, class High>
__device__ inline void slice_product(const Low& low, const High& high, float scale,
                                     const Staged1& x, int slice, Pair& sum) {
    int quad = threadIdx.x % 4;
    const uint4* mine = x.x + slice * length * 4 + quad;
    const float* x_scale = x.scale + slice * length;
    float top = sum.top, bottom = sum.bottom;
#pragma unroll
    for (int d = 0; d < length; ++d) {
        uint4 v = mine[d * 4];
        float t[4];
        block_product<kind>(t, words<kind>(low(d)), words<kind>(high(d)), {{v.x, v.y, v.z, v.w}});
        if constexpr (kind == Kind::bf16) {
            top = top + t[0];
            bottom = bottom + t[2];
        } else {
            float s_w = __shfl_sync(0xffffffffu, scale, d);
            if constexpr (kind == Kind::fp8) {
                float s_x = x_scale[d];
                t[0] = t[0] * s_x;
                t[2] = t[2] * s_x;
            }
            top = __fmaf_rn(t[0], s_w, top);
            bottom = __fmaf_rn(t[2], s_w, bottom);
        }
    }
    sum = {top, bottom};
}

// The weights of one slice of one tile.
template <Kind kind, int length>
struct Slice {
    using Raw = typename Form<kind>::Raw;
    Raw low[length], high[length];
    float scale;  // of block `lane`

    __device__ void load(const Matrix& m, int row0, int slice) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        int64_t pitch = int64_t(m.blocks) * Form<kind>::block_bytes;
        const std::byte* a = m.weights + (row0 + g) * pitch +
                             slice * length * Form<kind>::block_bytes + quad * sizeof(Raw);
        const std::byte* b = a + 8 * pitch;
#pragma unroll
        for (int d = 0; d < length; ++d) {
            low[d] = __ldg(reinterpret_cast<const Raw*>(a + d * Form<kind>::block_bytes));
            high[d] = __ldg(reinterpret_cast<const Raw*>(b + d * Form<kind>::block_bytes));
        }
        if constexpr (kind != Kind::bf16)
            scale = e8m0_to_float(__ldg(m.scales + int64_t(row0 / 32) * m.blocks + slice * length +
                                        (lane < length ? lane : 0)));
    }

    __device__ void add(const Staged1& x, int slice, Pair& sum) const {
        slice_product<kind, length>([&](int d) { return low[d]; }, [&](int d) { return high[d]; },
                                    scale, x, slice, sum);
    }
    // Rows g and g + 8 to sums[g] and sums[g + 8].
    __device__ void run(const Staged1& x, int slice, float* sums) const {
        Pair sum;
        add(x, slice, sum);
        sum.store(sums);
    }
};

// Slices in ascending order.
__device__ inline float slice_sum(const float* sums, int slices) {
    float total = sums[0];
    for (int s = 1; s < slices; ++s) total = total + sums[s * 16];
    return total;
}

constexpr int threads_max = 1024, sums_max = threads_max / warp * 16;

struct Plain {
    Matrix a, b;  // b's tiles follow a's
    Vector x;
    bf16 *a_bf16, *b_bf16;
    float* a_f32;
    int a_tiles, tiles;
    int group_tiles, group_bytes;  // grouped: tiles that share activations, and the bytes of those
};

template <Kind kind>
inline Matrix matrix_of(const Job& job) {
    auto* weights = kind == Kind::bf16 ? reinterpret_cast<const std::byte*>(job.w)
                                       : reinterpret_cast<const std::byte*>(job.codes);
    return {weights, job.w_scales, job.cols / 32};
}

inline int staged_size(const Job& job) {
    return job.cols / 32 * staged_block;
}

// What a launch needs for the shapes above: whole tiles, and slices of equal length.
template <Kind kind>
struct Launch {
    int length = 0, slices = 0, slices_log2 = 0, shared = 0;

    explicit Launch(const Job& job) {
        int blocks = job.cols / 32;
        slices = slices_of(job.cols);
        if (job.n != 1 || job.cols % 32 || job.rows <= 0 || job.rows % 16 || blocks % slices ||
            staged_size(job) > 44 * 1024)
            return;
        while (1 << slices_log2 < slices) ++slices_log2;
        length = blocks / slices;
        shared = staged_size(job);
    }
    // Calls body(the length as a constant); false where no kernel has this length.
    template <class Body>
    bool dispatch(const Body& body) const {
        switch (length) {
            case 8:
                return body(std::integral_constant<int, 8>{}), true;
            case 9:
                return body(std::integral_constant<int, 9>{}), true;
            case 10:
                return body(std::integral_constant<int, 10>{}), true;
        }
        return false;
    }
};

template <Kind kind>
inline Plain plain_of(const Job& a) {
    Plain op{};
    op.a = matrix_of<kind>(a);
    op.x = {kind == Kind::fp8 ? reinterpret_cast<const std::byte*>(a.x_codes)
                              : reinterpret_cast<const std::byte*>(a.x),
            a.x_scales};
    op.a_bf16 = a.y_bf16;
    op.a_f32 = a.y_f32;
    op.a_tiles = op.tiles = a.rows / 16;
    op.group_tiles = a.group_rows / 16;
    op.group_bytes = a.cols * int(sizeof(bf16));
    return op;
}

}  // namespace
}  // namespace sluice::cuda
