// Source of device.cuh. Linears of one token row: the arithmetic of linear.cuh, arranged to keep
// the memory busy.
#include "kernels/cuda/linear_one.cuh"

namespace sluice::cuda {
namespace {

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
    __device__ void add(const Staged1& x, int slice, Pair& sum) const {
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
            sum);
#endif
    }

 private:
    __device__ static int place(int row) {
        return row * row_bytes + row / 2 * 32;
    }
};

// The registers that a thread needs for its weights limit the threads of a block.
template <Kind kind, int length>
constexpr int threads_of = (kind == Kind::bf16 ? 8 : 4) * length <= 40 ? 1024 : 512;

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

// A slice has rounds * length blocks.
template <Kind kind, int length, bool copied, int rounds>
__global__ void __launch_bounds__(rounds > 1 ? 512 : threads_of<kind, length>)
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
            weights.load(matrix, row0, slice * rounds);
    }
    start_after_previous();
    Vector from = op.x;
    if constexpr (kind == Kind::grouped)
        from.values += int64_t(first / op.group_tiles) * op.group_bytes;
    Staged1 x = stage_one<kind>(from, op.a.blocks, memory);
    __syncthreads();
    if (inside) {
        Pair sum;
        weights.add(x, slice * rounds, sum);
        if constexpr (!copied) {
#pragma unroll
            for (int round = 1; round < rounds; ++round) {
                weights.load(matrix, row0, slice * rounds + round);
                weights.add(x, slice * rounds + round, sum);
            }
        }
        sum.store(sums + w * 16);
    }
    __syncthreads();
    store_tiles(op, sums, first, units, slices);
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
    auto start = [&](auto length, auto rounds) {
        int units = units_of<kind>(op, plan.slices, 512), threads = units * plan.slices * warp;
        unsigned grid = ceil_div(op.tiles, units);
        if constexpr (kind != Kind::bf16 && length() <= 10 && rounds() == 1) {
            size_t shared = align16(plan.shared) +
                            size_t(units) * plan.slices * Copied<kind, length()>::tile_bytes;
            if (lane.can_overlap && copies(op.a) && (!b || copies(op.b)) &&
                shared + sums_max * sizeof(float) + 512 <= shared_max)
                return launch_kernel(one_kernel<kind, length(), true, 1>, grid, threads, shared,
                                     lane, op, plan.slices_log2);
        }
        launch_kernel(one_kernel<kind, length(), false, rounds()>, grid, threads, plan.shared, lane,
                      op, plan.slices_log2);
    };
    constexpr std::integral_constant<int, 1> once{};
    constexpr std::integral_constant<int, 2> twice{};
    switch (plan.length) {  // for blocks of fewer threads than the kernels of dispatch() have
        case 12:
            return start(std::integral_constant<int, 12>{}, once), true;
        case 14:
            return start(std::integral_constant<int, 7>{}, twice), true;
        case 16:
            return start(std::integral_constant<int, 16>{}, once), true;
        case 32:
            if constexpr (kind == Kind::bf16)
                return false;  // too many registers
            else
                return start(std::integral_constant<int, 16>{}, twice), true;
    }
    return plan.dispatch([&](auto length) { start(length, once); });
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

}  // namespace sluice::cuda
