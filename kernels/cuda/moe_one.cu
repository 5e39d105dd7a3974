// Routed experts of one activation row each, on int8 matrix units, the order of additions of
// moe.cu.
//
// Two warps own 16 output rows, four lanes of the contract each. Thread q of a quad reads whole
// blocks of 32 codes (16 bytes) of its two rows: blocks 8 j + 4 h + q, lane 4 h + q of the contract
// (h: which of the two warps). The four blocks of a quad go through the matrix unit together:
// thread q's share of k holds its own block, and the other operand is zero wherever a column's
// block is another thread's. Columns 2 q and 2 q + 1 are digits 0 and 1 of block q, so that every
// thread ends with its own block's integer.
#include "kernels/cuda/moe.cuh"

namespace sluice::cuda {
namespace {

constexpr int threads = 256, tiles = 4, stride = 112;  // bytes between blocks in shared memory
constexpr int zeros = 160;                             // what threads read that have nothing to add

// One activation row in shared memory, and the values of scale bytes.
struct Row {
    const uint8_t *zero, *digits;
    const float2* scale_and_offset;  // scale, and 12 x the block's sum as an integer
    const float* power;              // of every scale byte
};

constexpr size_t row_bytes(int blocks) {
    return zeros + 256 * sizeof(float) + (size_t)blocks * (stride + sizeof(float2));
}

__device__ Row stage(const Digits& from, const int* sums, int64_t row, int blocks,
                     std::byte* memory) {
    auto* zero = (uint8_t*)memory;
    auto* power = (float*)(zero + zeros);
    auto* pairs = (float2*)(power + 256);
    auto* digits = (uint8_t*)(pairs + blocks);
    for (int i = threadIdx.x; i < zeros / 4; i += threads) ((int*)zero)[i] = 0;
    for (int i = threadIdx.x; i < 256; i += threads) power[i] = e8m0_to_float((uint8_t)i);
    const uint4* planes = (const uint4*)(from.planes + row * blocks * digits_bytes);
    for (int i = threadIdx.x; i < blocks * 6; i += threads)
        *(uint4*)(digits + i / 6 * stride + i % 6 * 16) = planes[i];
    for (int b = threadIdx.x; b < blocks; b += threads)
        pairs[b] =
            make_float2(from.scale[row * blocks + b], __int_as_float(12 * sums[row * blocks + b]));
    __syncthreads();
    return {zero, digits, pairs, power};
}

// Half of the lanes of 16 rows of a matrix of 8 * steps blocks a row, `depth` steps in flight.
template <int steps, int depth>
class Rows {
    static_assert(steps % depth == 0);

 public:
    __device__ Rows(const uint8_t* codes, const uint8_t* scales, int row0, int half) : half_(half) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        int64_t at = (int64_t)(row0 + g) * blocks + 4 * half + quad;
        codes_ = codes + at * 16;
        scales_ = scales + at;
#pragma unroll
        for (int d = 0; d < depth; ++d) fetch(d, d);
    }

    // Lane 4 half + q of rows g and g + 8 to lanes[row][8].
    __device__ void run(const Row& x, float (*lanes)[8]) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        // Where this thread finds the other operand: digits 0 and 1 if the column's block is its
        // own, digit 2 in the even column; zeros else.
        bool two = g / 2 == quad, one = g == 2 * quad;
        const uint8_t* mine = x.digits + (4 * half_ + quad) * stride;
        const uint8_t* low = two ? mine + g % 2 * 32 : x.zero;
        const uint8_t* high = one ? mine + 64 : x.zero;
        const int low_step = two ? 8 * stride : 0, high_step = one ? 8 * stride : 0;
        const float2* pairs = x.scale_and_offset + 4 * half_ + quad;
        float acc[2] = {0.0f, 0.0f};
        for (int base = 0; base < steps; base += depth) {
#pragma unroll
            for (int d = 0; d < depth; ++d) {
                int sums[2];
                integers(next_[d][0], next_[d][1], low, high, sums);
                float2 pair = *pairs;
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    acc[i] = acc[i] + term(sums[i] - __float_as_int(pair.y), pair.x,
                                           x.power[next_scales_[d][i]]);
                low += low_step;
                high += high_step;
                pairs += 8;
                if (base + depth < steps) fetch(d, base + d + depth);
            }
        }
        lanes[g][4 * half_ + quad] = acc[0];
        lanes[g + 8][4 * half_ + quad] = acc[1];
    }

 private:
    static constexpr int blocks = steps * 8;

    __device__ void fetch(int d, int step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            next_[d][i] = __ldg((const uint4*)(codes_ + step * 128 + i * 8 * blocks * 16));
            next_scales_[d][i] = __ldg(scales_ + step * 8 + i * 8 * blocks);
        }
    }

    // The integers (of weights 12 too large) of this thread's block for rows g and g + 8.
    __device__ static void integers(const uint4& low_row, const uint4& high_row,
                                    const uint8_t* digits, const uint8_t* digit2, int (&out)[2]) {
        const uint32_t a[4] = {low_row.x, low_row.y, low_row.z, low_row.w};
        const uint32_t b[4] = {high_row.x, high_row.y, high_row.z, high_row.w};
        int c[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            uint32_t fa = a[s] ^ 0x88888888u, fb = b[s] ^ 0x88888888u;
            uint32_t a0 = weights_offset(a[s], fa), a2 = weights_offset(a[s] >> 16, fa >> 16);
            uint32_t a1 = weights_offset(b[s], fb), a3 = weights_offset(b[s] >> 16, fb >> 16);
            uint2 x = *(const uint2*)(digits + s * 8), y = *(const uint2*)(digit2 + s * 8);
            mma_s8(c, a0, a1, a2, a3, x.x, x.y);
            mma_s8(e, a0, a1, a2, a3, y.x, y.y);
        }
        out[0] = c[0] + c[1] * 256 + e[0] * 65536;
        out[1] = c[2] + c[3] * 256 + e[2] * 65536;
    }

    int half_;
    const uint8_t *codes_, *scales_;
    uint4 next_[depth][2];
    uint8_t next_scales_[depth][2];
};

// The contract's tree over the eight lanes.
__device__ inline float tree(const float (&v)[8]) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// The digits of one lane's activation, and the sum of the warp's.
__device__ inline void store_digits_and_sum(const Digits& to, int* sums, int64_t block,
                                            uint8_t code, uint8_t scale) {
    store_digits(to, block, code, scale);
    int sum = e4m3_to_int(code);
#pragma unroll
    for (int off = 16; off > 0; off >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, off);
    if (threadIdx.x % warp == 0) sums[block] = sum;
}

__global__ void one_digits_kernel(__grid_constant__ const Items items) {
    start_after_previous();
    int blocks = items.dim / 32, lane = threadIdx.x % warp;
    int b = blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (b >= blocks) return;
    int64_t from = (int64_t)*items.at[blockIdx.y].row * blocks + b;
    store_digits_and_sum(items.in, items.in_sums, (int64_t)blockIdx.y * blocks + b,
                         items.x.codes[from * 32 + lane], items.x.scales[from]);
}

// Tiles 0, 1: rows 0..15 and 16..31 of w1; tiles 2, 3: of w3.
template <int steps, int depth>
__global__ void __launch_bounds__(threads, 4)
    one_gate_up_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float lanes[tiles][16][8], values[tiles * 16];
    const Item& item = items.at[blockIdx.y];
    int w = threadIdx.x / warp, lane = threadIdx.x % warp, tile = w / 2;
    Rows<steps, depth> rows(tile < 2 ? item.c1 : item.c3, tile < 2 ? item.s1 : item.s3,
                            blockIdx.x * 32 + tile % 2 * 16, w % 2);
    start_after_previous();
    Row x = stage(items.in, items.in_sums, blockIdx.y, steps * 8, memory);
    rows.run(x, lanes[tile]);
    __syncthreads();
    if (threadIdx.x < tiles * 16)
        values[threadIdx.x] = round_bf16(tree(lanes[threadIdx.x / 16][threadIdx.x % 16]));
    __syncthreads();
    if (w != 0) return;
    uint8_t code, byte;
    swiglu_lane(values[lane], values[32 + lane], item.weight, items.limit, &code, &byte);
    store_digits_and_sum(items.act, items.act_sums,
                         (int64_t)blockIdx.y * (items.inner / 32) + blockIdx.x, code, byte);
}

// 64 rows a block: dim is a multiple of that.
template <int steps, int depth>
__global__ void __launch_bounds__(threads, 4) one_down_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float lanes[tiles][16][8];
    const Item& item = items.at[blockIdx.y];
    int w = threadIdx.x / warp, row0 = blockIdx.x * tiles * 16;
    Rows<steps, depth> rows(item.c2, item.s2, row0 + w / 2 * 16, w % 2);
    start_after_previous();
    Row x = stage(items.act, items.act_sums, blockIdx.y, steps * 8, memory);
    rows.run(x, lanes[w / 2]);
    __syncthreads();
    if (threadIdx.x < tiles * 16)
        item.out[(int64_t)*item.slot * items.dim + row0 + threadIdx.x] =
            to_bf16(tree(lanes[threadIdx.x / 16][threadIdx.x % 16]));
}

}  // namespace

// The shapes of V4.1 (5120 and 2304 wide) and some that test the same code at less cost.
bool launch_items(const Items& items, int count, Lane lane) {
    unsigned n = (unsigned)count;
    auto start = [&](auto gate_up, int dim, auto down, int inner) {
        launch_kernel(one_digits_kernel, dim3(ceil_div(dim / 32, 8), n), 256, 0, lane, items);
        launch_kernel(gate_up, dim3(inner / 32, n), threads, row_bytes(dim / 32), lane, items);
        launch_kernel(down, dim3(dim / (tiles * 16), n), threads, row_bytes(inner / 32), lane,
                      items);
        return true;
    };
    if (items.dim == 5120 && items.inner == 2304)
        return start(one_gate_up_kernel<20, 2>, 5120, one_down_kernel<9, 3>, 2304);
    if (items.dim == 1024 && items.inner == 768)
        return start(one_gate_up_kernel<4, 2>, 1024, one_down_kernel<3, 3>, 768);
    return false;
}

}  // namespace sluice::cuda
