// Source of device.cuh. Linears of one token row: the arithmetic of linear.cuh, arranged to keep
// the memory busy.
//
// A warp owns one slice of one tile of 16 output rows and requests all its weights before it looks
// at the first (for weights it need not wait for the kernel before). For the lengths below, the
// number of blocks in a slice is known at compile time; other shapes stay with the skinny kernel.
// Activations are staged as halves (bfloat16 where the model has them in that form), the same in
// all eight columns of the matrix unit: column 0 is the result.
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

// A slice of a tile: low(d) and high(d) return this thread's part of block d of rows g and g + 8,
// whose sums go to sums[g] and sums[g + 8]. `scale` is that of block `lane`.
template <Kind kind, int length, class Low, class High>
__device__ inline void slice_product(const Low& low, const High& high, float scale,
                                     const Staged1& x, int slice, float* sums) {
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    const uint4* mine = x.x + slice * length * 4 + quad;
    const float* x_scale = x.scale + slice * length;
    float top = 0.0f, bottom = 0.0f;
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
    if (quad == 0) {
        sums[g] = top;
        sums[g + 8] = bottom;
    }
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

    // Rows g and g + 8 to sums[g] and sums[g + 8].
    __device__ void run(const Staged1& x, int slice, float* sums) const {
        slice_product<kind, length>([&](int d) { return low[d]; }, [&](int d) { return high[d]; },
                                    scale, x, slice, sums);
    }
};

// The same through shared memory, where the device copies rows there by itself (compute 9.0 and
// later): the load units execute one instruction per row instead of two per block. Codes only.
template <Kind kind, int length>
struct Copied {
    static constexpr int row_bytes = length * 32;
    // Two rows are followed by 32 unused bytes, so that four neighbours use different banks.
    static constexpr int tile_bytes = 16 * row_bytes + 8 * 32;
    const std::byte* rows;
    uint32_t barrier;
    float scale;

    // `memory`: tile_bytes, 16-byte aligned; `arrived`: 8 bytes. Both belong to this warp.
    __device__ void load(const Matrix& m, int row0, int slice, std::byte* memory,
                         uint64_t* arrived) {
        rows = memory;
#if __CUDA_ARCH__ >= 900
        int lane = threadIdx.x % warp;
        barrier = uint32_t(__cvta_generic_to_shared(arrived));
        if (lane == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
            asm volatile("fence.mbarrier_init.release.cluster;");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                         "r"(16 * row_bytes)
                         : "memory");
        }
        __syncwarp();
        if (lane < 16) {
            const std::byte* from =
                m.weights + int64_t(row0 + lane) * m.blocks * 32 + slice * row_bytes;
            uint32_t to = uint32_t(__cvta_generic_to_shared(memory + place(lane)));
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
                "[%3];" ::"r"(to),
                "l"(__cvta_generic_to_global(from)), "r"(row_bytes), "r"(barrier)
                : "memory");
        }
        scale = e8m0_to_float(__ldg(m.scales + int64_t(row0 / 32) * m.blocks + slice * length +
                                    (lane < length ? lane : 0)));
#endif
    }
    __device__ void run(const Staged1& x, int slice, float* sums) const {
#if __CUDA_ARCH__ >= 900
        uint32_t done = 0;
        while (!done)
            asm volatile(
                "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
                "selp.u32 %0, 1, 0, p;}"
                : "=r"(done)
                : "r"(barrier)
                : "memory");
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        const std::byte *low = rows + place(g) + quad * 8, *high = rows + place(g + 8) + quad * 8;
        slice_product<kind, length>(
            [&](int d) { return *reinterpret_cast<const uint2*>(low + d * 32); },
            [&](int d) { return *reinterpret_cast<const uint2*>(high + d * 32); }, scale, x, slice,
            sums);
#endif
    }

 private:
    __device__ static int place(int row) {
        return row * row_bytes + row / 2 * 32;
    }
};

// Slices in ascending order.
__device__ inline float slice_sum(const float* sums, int slices) {
    float total = sums[0];
    for (int s = 1; s < slices; ++s) total = total + sums[s * 16];
    return total;
}

constexpr int threads_max = 1024, sums_max = threads_max / warp * 16;
// The registers that a thread needs for its weights limit the threads of a block.
template <Kind kind, int length>
constexpr int threads_of = (kind == Kind::bf16 ? 8 : 4) * length <= 40 ? 1024 : 512;

struct Plain {
    Matrix a, b;  // b's tiles follow a's
    Vector x;
    bf16 *a_bf16, *b_bf16;
    float* a_f32;
    int a_tiles, tiles;
    int group_tiles, group_bytes;  // grouped: tiles that share activations, and the bytes of those
};

// Warp w has finished its tile and slice: adds the slices up and stores.
__device__ inline void store_tiles(const Plain& op, const float* sums, int first, int units,
                                   int slices) {
    int at = first + threadIdx.x / 16, r = threadIdx.x % 16;
    if (int(threadIdx.x) >= units * 16 || at >= op.tiles) return;
    float total = slice_sum(sums + threadIdx.x / 16 * slices * 16 + r, slices);
    if (at >= op.a_tiles)
        op.b_bf16[(at - op.a_tiles) * 16 + r] = to_bf16(total);
    else if (op.a_bf16)
        op.a_bf16[at * 16 + r] = to_bf16(total);
    else
        op.a_f32[at * 16 + r] = total;
}

template <Kind kind, int length, bool copied>
__global__ void __launch_bounds__(threads_of<kind, length>)
    one_kernel(__grid_constant__ const Plain op, int slices_log2) {
    extern __shared__ __align__(128) std::byte memory[];  // activations, then weights
    __shared__ float sums[sums_max];
    __shared__ uint64_t arrived[copied ? threads_max / warp : 1];
    int w = threadIdx.x / warp, slices = 1 << slices_log2, slice = w & (slices - 1);
    int units = blockDim.x / warp >> slices_log2, first = blockIdx.x * units;
    int tile = first + (w >> slices_log2);
    bool of_a = tile < op.a_tiles, inside = tile < op.tiles;
    const Matrix& matrix = of_a ? op.a : op.b;
    int row0 = (of_a ? tile : tile - op.a_tiles) * 16;
    std::conditional_t<copied, Copied<kind, length>, Slice<kind, length>> weights;
    if (inside) {
        if constexpr (copied)
            weights.load(matrix, row0, slice,
                         memory + align16(op.a.blocks * staged_block) + w * weights.tile_bytes,
                         arrived + w);
        else
            weights.load(matrix, row0, slice);
    }
    start_after_previous();
    Vector from = op.x;
    if constexpr (kind == Kind::grouped)
        from.values += int64_t(first / op.group_tiles) * op.group_bytes;
    Staged1 x = stage_one<kind>(from, op.a.blocks, memory);
    __syncthreads();
    if (inside) weights.run(x, slice, sums + w * 16);
    __syncthreads();
    store_tiles(op, sums, first, units, slices);
}

// 32 output rows, which is one quantisation group: two tiles.
template <int length>
__global__ void __launch_bounds__(threads_max)
    one_grouped_quant_kernel(__grid_constant__ const Plain op, QuantRows out, int slices_log2,
                             unsigned* tickets) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float sums[sums_max];
    int w = threadIdx.x / warp, slices = 1 << slices_log2, slice = w & (slices - 1);
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp;
    Slice<Kind::grouped, length> weights;
    weights.load(op.a, row0 + (w >> slices_log2) * 16, slice);
    start_after_previous();
    Vector from = op.x;
    from.values += int64_t(blockIdx.x * 2 / op.group_tiles) * op.group_bytes;
    Staged1 x = stage_one<Kind::grouped>(from, op.a.blocks, memory);
    __syncthreads();
    weights.run(x, slice, sums + w * 16);
    __syncthreads();
    if (w != 0) return;
    float v = round_bf16(slice_sum(sums + lane / 16 * slices * 16 + lane % 16, slices));
    op.a_bf16[row0 + lane] = to_bf16(v);
    store_part(v, out, row0 + lane, op.a_bf16, tickets ? tickets + row0 / 128 : nullptr);
}

// 32 rows of both matrices in turn, then SwiGLU and quantisation.
template <int length>
__global__ void __launch_bounds__(threads_max)
    one_gate_up_kernel(__grid_constant__ const Plain op, QuantRows out, const float* route_weight,
                       float limit, int slices_log2, unsigned* tickets) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float sums[2][sums_max];
    int w = threadIdx.x / warp, slices = 1 << slices_log2, slice = w & (slices - 1);
    int row0 = blockIdx.x * 32, lane = threadIdx.x % warp, row = row0 + (w >> slices_log2) * 16;
    Slice<Kind::fp8, length> weights;
    weights.load(op.a, row, slice);
    start_after_previous();
    Staged1 x = stage_one<Kind::fp8>(op.x, op.a.blocks, memory);
    __syncthreads();
    weights.run(x, slice, sums[0] + w * 16);
    weights.load(op.b, row, slice);
    weights.run(x, slice, sums[1] + w * 16);
    __syncthreads();
    if (w != 0) return;
    int at = lane / 16 * slices * 16 + lane % 16;
    float g = round_bf16(slice_sum(sums[0] + at, slices));
    float u = round_bf16(slice_sum(sums[1] + at, slices));
    store_part(swiglu_value(g, u, route_weight, limit), out, row0 + lane, op.a_bf16,
               tickets ? tickets + row0 / 128 : nullptr);
}

template <Kind kind>
Matrix matrix_of(const Job& job) {
    auto* weights = kind == Kind::bf16 ? reinterpret_cast<const std::byte*>(job.w)
                                       : reinterpret_cast<const std::byte*>(job.codes);
    return {weights, job.w_scales, job.cols / 32};
}

int staged_size(const Job& job) {
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
    // Calls body(the length as a constant); false where no kernel has this length. (16 blocks are
    // too many for blocks of 1024 threads.)
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
Plain plain_of(const Job& a) {
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

// Tiles that a block of threads computes at once: more of them share the staging, as long as the
// device stays full.
template <Kind kind>
int units_of(const Plain& op, int slices, int threads) {
    int units = threads / (slices * warp);
    while (units > 1 && ceil_div(op.tiles, units) < 256) units /= 2;
    while (units > 1 && kind == Kind::grouped && op.group_tiles % units) units /= 2;
    return units;
}

bool copies(const Matrix& m) {
    return reinterpret_cast<uintptr_t>(m.weights) % 16 == 0;
}

template <Kind kind>
bool one(const Job& a, const Job* b, Lane lane) {
    Launch<kind> plan(a);
    if (b && (b->rows % 16 || b->y_f32)) return false;
    if (kind == Kind::grouped && a.group_rows % 16) return false;
    Plain op = plain_of<kind>(a);
    if (b) {
        op.b = matrix_of<kind>(*b);
        op.b_bf16 = b->y_bf16;
        op.tiles += b->rows / 16;
    }
    auto start = [&](auto length) {
        int units = units_of<kind>(op, plan.slices, 512), threads = units * plan.slices * warp;
        unsigned grid = ceil_div(op.tiles, units);
        if constexpr (kind != Kind::bf16 && length() <= 10) {
            size_t shared = align16(plan.shared) +
                            size_t(units) * plan.slices * Copied<kind, length()>::tile_bytes;
            if (lane.can_overlap && copies(op.a) && (!b || copies(op.b)) &&
                shared + sums_max * sizeof(float) + 512 <= shared_max)
                return launch_kernel(one_kernel<kind, length(), true>, grid, threads, shared, lane,
                                     op, plan.slices_log2);
        }
        launch_kernel(one_kernel<kind, length(), false>, grid, threads, plan.shared, lane, op,
                      plan.slices_log2);
    };
    if (plan.length == 16) return start(std::integral_constant<int, 16>{}), true;
    return plan.dispatch(start);
}

}  // namespace

bool launch_one(const LinearFp8& op, Lane lane) {
    return one<Kind::fp8>(job_of(op), nullptr, lane);
}
bool launch_one(const LinearBf16& op, Lane lane) {
    if (op.y_bf16 && op.y_f32) return false;
    return one<Kind::bf16>(job_of(op), nullptr, lane);
}
bool launch_one(const GroupedOutput& op, Lane lane) {
    return one<Kind::grouped>(job_of(op), nullptr, lane);
}
bool launch_one(const LinearFp8Pair& op, Lane lane) {
    Job b = job_of(op.b);
    return one<Kind::fp8>(job_of(op.a), &b, lane);
}

bool launch_one(const GroupedOutputQuant& op, Lane lane) {
    Job job = job_of(op.output);
    Launch<Kind::grouped> plan(job);
    if (job.rows % 32 || job.group_rows % 32) return false;
    return plan.dispatch([&](auto length) {
        launch_kernel(one_grouped_quant_kernel<length()>, job.rows / 32, 2 * plan.slices * warp,
                      plan.shared, lane, plain_of<Kind::grouped>(job), op.quant.out,
                      plan.slices_log2, tickets_of(op.quant.group, lane));
    });
}

bool launch_one(const GateUp& op, Lane lane) {
    Job gate = job_of(op.gate), up = job_of(op.up);
    Launch<Kind::fp8> plan(gate);
    if (gate.rows % 32) return false;
    Plain both = plain_of<Kind::fp8>(gate);
    both.b = matrix_of<Kind::fp8>(up);
    return plan.dispatch([&](auto length) {
        launch_kernel(one_gate_up_kernel<length()>, gate.rows / 32, 2 * plan.slices * warp,
                      plan.shared, lane, both, op.swiglu.out, op.swiglu.weights, op.swiglu.limit,
                      plan.slices_log2, tickets_of(op.swiglu.group, lane));
    });
}

}  // namespace sluice::cuda
