// Source of device.cuh. Linears of few token rows, and of any number where linear_wide.cu does not
// take the shape. The arithmetic is in linear.cuh.
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/wide.cuh"

namespace sluice::cuda {
namespace {

constexpr int few = 32;

// The tiles of a second matrix with the same activations may follow those of the first.
template <Kind kind, int tiles>
__global__ void skinny_kernel(Job a, Job b, int a_tiles) {
    extern __shared__ __align__(16) float shared[];  // [slices][tiles][128], then the activations
    const Job job =
        int(blockIdx.x) < a_tiles ? a : b;  // by value: a reference would be kept in memory
    int slices = blockDim.x / warp, w = threadIdx.x / warp, lane = threadIdx.x % warp;
    int blocks = ceil_div(job.cols, 32), per_slice = ceil_div(blocks, slices);
    int row0 = (int(blockIdx.x) < a_tiles ? blockIdx.x : blockIdx.x - a_tiles) * 16;
    int token0 = blockIdx.y * tiles * 8, begin = w * per_slice,
        end = min(blocks, begin + per_slice);
    Ahead<kind, depth_of<kind>> ahead;
    ahead.load(job, row0, begin, end);
    Staged staged{};
    if constexpr (kind == Kind::fp8) {
        int count = min(job.n, tiles * 8);
        if (staged_bytes(job.cols, count) <= staged_max)
            staged = stage(job, token0, count,
                           reinterpret_cast<uint8_t*>(shared + slices * tiles * 128));
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

template <Kind kind, int tiles>
void skinny(const Job& job, Lane lane) {
    int bytes = shared_bytes<kind>(job, tiles * 128, tiles * 8);
    dim3 grid(ceil_div(job.rows, 16), ceil_div(job.n, tiles * 8));
    launch_plain(skinny_kernel<kind, tiles>, grid, slices_of(job.cols) * warp, bytes, lane, job,
                 job, grid.x);
}

template <Kind kind>
void linear(const Job& job, Lane lane) {
    if (!job.n || !job.rows) return;
    if (job.n <= 8)
        skinny<kind, 1>(job, lane);
    else
        skinny<kind, 2>(job, lane);
}

}  // namespace

void launch(const LinearFp8& op, Lane lane) {
    if (launch_one(op, lane) || (op.n > few && launch_wide(op, lane))) return;
    linear<Kind::fp8>(job_of(op), lane);
}

void launch(const LinearBf16& op, Lane lane) {
    if (launch_one(op, lane) || (op.n > few && launch_wide(op, lane))) return;
    linear<Kind::bf16>(job_of(op), lane);
}

// A tile of 16 rows lies in one group, because the rank is a multiple of 16 (checked by reserve()).
void launch(const GroupedOutput& op, Lane lane) {
    if (launch_one(op, lane) || (op.n > few && launch_wide(op, lane))) return;
    linear<Kind::grouped>(job_of(op), lane);
}

// True if one launch can do it: few token rows, the same activations.
bool launch(const LinearFp8Pair& op, Lane lane) {
    if (op.a.n > 8 || op.a.n != op.b.n || op.a.w.cols != op.b.w.cols ||
        op.a.x.codes != op.b.x.codes)
        return false;
    if (!op.a.n || launch_one(op, lane)) return true;
    Job a = job_of(op.a), b = job_of(op.b);
    int tiles = ceil_div(a.rows, 16), bytes = shared_bytes<Kind::fp8>(a, 128, 8);
    launch_plain(skinny_kernel<Kind::fp8, 1>, tiles + ceil_div(b.rows, 16),
                 slices_of(a.cols) * warp, bytes, lane, a, b, tiles);
    return true;
}

}  // namespace sluice::cuda
