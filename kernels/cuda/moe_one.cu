// Routed experts of one activation row each, on int8 matrix units, the order of additions of
// moe.cu.
//
// A warp owns 16 output rows. Thread q of a quad reads whole blocks of 32 codes (16 bytes) of its
// two rows: blocks 8 j + 2 q and 8 j + 2 q + 1, which are its two lanes of the contract. The four
// blocks of a quad go through the matrix unit together: thread q's share of k holds its own block,
// and the other operand is zero wherever a column's block is another thread's. Columns 2 q and 2 q
// + 1 are digits 0 and 1 of block q, so that every thread ends with its own block's integer.
#include "kernels/cuda/moe.cuh"

namespace sluice::cuda {
namespace {

constexpr int threads = 128, stride = 112;  // bytes between blocks in shared memory
constexpr int zeros = 160;                  // what threads read that have nothing to add

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

// 16 rows of a matrix of 8 * steps blocks a row, `depth` steps in flight.
template <int steps, int depth>
class Rows {
    static_assert(steps % depth == 0);

 public:
    __device__ Rows(const uint8_t* codes, const uint8_t* scales, int row0) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        int64_t at = (int64_t)(row0 + g) * blocks + 2 * quad;
        codes_ = codes + at * 16;
        scales_ = scales + at;
#pragma unroll
        for (int d = 0; d < depth; ++d) fetch(d, d);
    }

    // y[i] = row g + 8 i, in all four threads of a quad.
    __device__ void run(const Row& x, float (&y)[2]) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        // Where this thread finds the other operand: digits 0 and 1 if the column's block is its
        // own, digit 2 in the even column; zeros else.
        bool two = g / 2 == quad, one = g == 2 * quad;
        const uint8_t* low = two ? x.digits + 2 * quad * stride + g % 2 * 32 : x.zero;
        const uint8_t* high = one ? x.digits + 2 * quad * stride + 64 : x.zero;
        const int low_step = two ? 8 * stride : 0, high_step = one ? 8 * stride : 0;
        const float2* pairs = x.scale_and_offset + 2 * quad;
        float acc[2][2] = {};
        for (int base = 0; base < steps; base += depth) {
#pragma unroll
            for (int d = 0; d < depth; ++d) {
                uint32_t scales[2] = {next_scales_[d][0], next_scales_[d][1]};
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    int sums[2];
                    integers(next_[d][0][e], next_[d][1][e], low + e * stride, high + e * stride,
                             sums);
                    float2 pair = pairs[e];
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        acc[i][e] = acc[i][e] + term(sums[i] - __float_as_int(pair.y), pair.x,
                                                     x.power[scales[i] >> (8 * e) & 255]);
                }
                low += low_step;
                high += high_step;
                pairs += 8;
                if (base + depth < steps) fetch(d, base + d + depth);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float v0 = acc[i][0] + __shfl_xor_sync(0xffffffffu, acc[i][0], 2);
            float v1 = acc[i][1] + __shfl_xor_sync(0xffffffffu, acc[i][1], 2);
            v0 = v0 + __shfl_xor_sync(0xffffffffu, v0, 1);
            v1 = v1 + __shfl_xor_sync(0xffffffffu, v1, 1);
            y[i] = v0 + v1;
        }
    }

 private:
    static constexpr int blocks = steps * 8;

    __device__ void fetch(int d, int step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint4* from = (const uint4*)(codes_ + step * 128 + i * 8 * blocks * 16);
            next_[d][i][0] = __ldg(from);
            next_[d][i][1] = __ldg(from + 1);
            next_scales_[d][i] = __ldg((const uint16_t*)(scales_ + step * 8 + i * 8 * blocks));
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

    const uint8_t *codes_, *scales_;
    uint4 next_[depth][2][2];
    uint16_t next_scales_[depth][2];
};

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

// Warps 0, 1: rows 0..15 and 16..31 of w1; warps 2, 3: of w3.
template <int steps, int depth>
__global__ void __launch_bounds__(threads, 4)
    one_gate_up_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float values[2][32];
    const Item& item = items.at[blockIdx.y];
    int w = threadIdx.x / warp, lane = threadIdx.x % warp;
    Rows<steps, depth> rows(w < 2 ? item.c1 : item.c3, w < 2 ? item.s1 : item.s3,
                            blockIdx.x * 32 + w % 2 * 16);
    start_after_previous();
    Row x = stage(items.in, items.in_sums, blockIdx.y, steps * 8, memory);
    float y[2];
    rows.run(x, y);
    if (lane % 4 < 2)
        values[w / 2][w % 2 * 16 + lane / 4 + lane % 4 * 8] = round_bf16(lane % 4 ? y[1] : y[0]);
    __syncthreads();
    if (w != 0) return;
    uint8_t code, byte;
    swiglu_lane(values[0][lane], values[1][lane], item.weight, items.limit, &code, &byte);
    store_digits_and_sum(items.act, items.act_sums,
                         (int64_t)blockIdx.y * (items.inner / 32) + blockIdx.x, code, byte);
}

template <int steps, int depth>
__global__ void __launch_bounds__(threads, 4) one_down_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    const Item& item = items.at[blockIdx.y];
    int lane = threadIdx.x % warp;
    int row0 = (blockIdx.x * (threads / warp) + threadIdx.x / warp) * 16;
    bool inside = row0 < items.dim;
    Rows<steps, depth> rows(item.c2, item.s2, inside ? row0 : 0);
    start_after_previous();
    Row x = stage(items.act, items.act_sums, blockIdx.y, steps * 8, memory);
    if (!inside) return;
    float y[2];
    rows.run(x, y);
    if (lane % 4 < 2)
        item.out[(int64_t)*item.slot * items.dim + row0 + lane / 4 + lane % 4 * 8] =
            to_bf16(lane % 4 ? y[1] : y[0]);
}

}  // namespace

// The shapes of V4.1 (5120 and 2304 wide) and some that test the same code at less cost.
bool launch_items(const Items& items, int count, Lane lane) {
    unsigned n = (unsigned)count;
    auto start = [&](auto gate_up, int dim, auto down, int inner) {
        launch_kernel(one_digits_kernel, dim3(ceil_div(dim / 32, 8), n), 256, 0, lane, items);
        launch_kernel(gate_up, dim3(inner / 32, n), threads, row_bytes(dim / 32), lane, items);
        launch_kernel(down, dim3(ceil_div(dim, threads / warp * 16), n), threads,
                      row_bytes(inner / 32), lane, items);
        return true;
    };
    if (items.dim == 5120 && items.inner == 2304)
        return start(one_gate_up_kernel<20, 4>, 5120, one_down_kernel<9, 3>, 2304);
    if (items.dim == 1024 && items.inner == 768)
        return start(one_gate_up_kernel<4, 4>, 1024, one_down_kernel<3, 3>, 768);
    return false;
}

}  // namespace sluice::cuda
