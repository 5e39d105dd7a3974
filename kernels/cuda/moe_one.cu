// Source of moe.cuh. Routed experts of one activation row each, on int8 matrix units, with the
// order of additions of moe.cu.
//
// Two warps own 16 output rows, four lanes of the contract each. Thread q of a quad reads whole
// blocks of 32 codes (16 bytes) of its two rows: blocks 8 j + 4 h + q, lane 4 h + q of the contract
// (h: which of the two warps). The four blocks of a quad go through the matrix unit together:
// thread q's share of k holds its own block, and the other operand is zero wherever a column's
// block belongs to another thread. Columns 2 q and 2 q + 1 are digits 0 and 1 of block q, so that
// every thread ends with the integer of its own block.
#include "kernels/cuda/moe.cuh"

namespace sluice::cuda {
namespace {

constexpr int threads = 256, tiles = 4;
constexpr int zeros = 160;  // bytes, read by threads that have nothing to add

// One activation row in shared memory, and the values of scale bytes.
struct Row {
    const uint8_t *zero, *records;
    const float* power;  // value of every scale byte
};

constexpr size_t row_bytes(int blocks) {
    return zeros + 256 * sizeof(float) + size_t(blocks) * record_bytes;
}

// All loads are started before the first value is stored.
template <int blocks>
__device__ Row stage(const uint8_t* records, std::byte* memory) {
    constexpr int pieces = blocks * record_bytes / 16, each = ceil_div(pieces, threads);
    auto* zero = reinterpret_cast<uint8_t*>(memory);
    auto* power = reinterpret_cast<float*>(zero + zeros);
    auto* to = reinterpret_cast<uint4*>(power + 256);
    uint4 held[each];
#pragma unroll
    for (int k = 0; k < each; ++k) {
        int i = threadIdx.x + k * threads;
        if (i < pieces) held[k] = reinterpret_cast<const uint4*>(records)[i];
    }
    if (threadIdx.x < zeros / 4) reinterpret_cast<int*>(zero)[threadIdx.x] = 0;
    power[threadIdx.x] = e8m0_to_float(uint8_t(threadIdx.x));
#pragma unroll
    for (int k = 0; k < each; ++k) {
        int i = threadIdx.x + k * threads;
        if (i < pieces) to[i] = held[k];
    }
    __syncthreads();
    return {zero, reinterpret_cast<uint8_t*>(to), power};
}

// Codes are read once, 64 bytes of a row per warp; the device fetches the row's next ones with
// them.
__device__ inline uint4 load_codes(const uint8_t* at) {
#if __CUDA_ARCH__ >= 800
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
#else
    return __ldg(reinterpret_cast<const uint4*>(at));
#endif
}

// weights_offset() in fewer operations: each magnitude plus twelve and twelve minus it, in
// registers of each thread. A shuffle hides from the compiler that they are constants, which it
// would otherwise move to a register at every use.
class Decode {
 public:
    __device__ Decode()
        : more_(own(0x0f0e0d0cu)),
          more_high_(own(0x18141210u)),
          less_(own(0x090a0b0cu)),
          less_high_(own(0x00040608u)) {}

    __device__ uint32_t operator()(uint32_t codes, uint32_t flipped) const {
        return prmt(more_, more_high_, codes) + prmt(less_, less_high_, flipped);
    }

 private:
    __device__ static uint32_t own(uint32_t table) {
        return __shfl_sync(0xffffffffu, table, int(threadIdx.x % warp));
    }
    uint32_t more_, more_high_, less_, less_high_;
};

// Half of the lanes of 16 rows of a matrix with 8 * steps blocks per row, `depth` steps in flight.
template <int steps, int depth>
class Rows {
    static_assert(steps % depth == 0);

 public:
    __device__ Rows(const uint8_t* codes, const uint8_t* scales, int row0, int half) : half_(half) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        int64_t at = int64_t(row0 + g) * blocks + 4 * half + quad;
        codes_ = codes + at * 16;
        scales_ = scales + at;
#pragma unroll
        for (int d = 0; d < depth; ++d) fetch(d, d);
    }

    // Lane 4 half + q of rows g and g + 8 to lanes[row][8].
    __device__ void run(const Row& x, float (*lanes)[8]) {
        int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
        // Where this thread finds the other operand: digits 0 and 1 if the column's block is its
        // own, digit 2 in the even column, and zeros otherwise.
        bool two = g / 2 == quad, one = g == 2 * quad;
        const uint8_t* mine = x.records + (4 * half_ + quad) * record_bytes;
        const uint8_t* low = two ? mine + g % 2 * 32 : x.zero;
        const uint8_t* high = one ? mine + 64 : x.zero;
        constexpr int next = 8 * record_bytes;
        const int low_step = two ? next : 0, high_step = one ? next : 0;
        const Decode decode;
        float acc[2] = {0.0f, 0.0f};
        for (int base = 0; base < steps; base += depth) {
#pragma unroll
            for (int d = 0; d < depth; ++d) {
                int sums[2];
                integers(decode, next_[d][0], next_[d][1], low, high, sums);
                float2 pair = *reinterpret_cast<const float2*>(mine + digits_bytes);
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    acc[i] = acc[i] + term(sums[i] - __float_as_int(pair.y), pair.x,
                                           x.power[next_scales_[d][i]]);
                low += low_step;
                high += high_step;
                mine += next;
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
            next_[d][i] = load_codes(codes_ + step * 128 + i * 8 * blocks * 16);
            next_scales_[d][i] = __ldg(scales_ + step * 8 + i * 8 * blocks);
        }
    }

    // The integers of this thread's block for rows g and g + 8, with weights that are 12 too large.
    __device__ static void integers(const Decode& decode, const uint4& low_row,
                                    const uint4& high_row, const uint8_t* digits,
                                    const uint8_t* digit2, int (&out)[2]) {
        const uint32_t a[4] = {low_row.x, low_row.y, low_row.z, low_row.w};
        const uint32_t b[4] = {high_row.x, high_row.y, high_row.z, high_row.w};
        int c[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            uint32_t fa = a[s] ^ 0x88888888u, fb = b[s] ^ 0x88888888u;
            uint32_t a0 = decode(a[s], fa), a2 = decode(a[s] >> 16, fa >> 16);
            uint32_t a1 = decode(b[s], fb), a3 = decode(b[s] >> 16, fb >> 16);
            uint2 x = *reinterpret_cast<const uint2*>(digits + s * 8),
                  y = *reinterpret_cast<const uint2*>(digit2 + s * 8);
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

// A warp's block of 32, with one code per lane.
__device__ inline void store_record(uint8_t* record, uint8_t code, uint8_t scale) {
    int lane = threadIdx.x % warp, sum = e4m3_to_int(code);
    Split d = split(sum);
    record[lane] = uint8_t(d.d0);
    record[32 + lane] = uint8_t(d.d1);
    record[64 + lane] = uint8_t(d.d2);
#pragma unroll
    for (int off = 16; off > 0; off >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, off);
    if (lane == 0)
        *reinterpret_cast<float2*>(record + digits_bytes) =
            make_float2(activation_scale(scale), __int_as_float(12 * sum));
}

__global__ void one_digits_kernel(__grid_constant__ const Items items) {
    start_after_previous();
    int blocks = items.dim / 32, lane = threadIdx.x % warp;
    int b = blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (b >= blocks) return;
    int64_t from = int64_t(*items.at[blockIdx.y].row) * blocks + b;
    store_record(items.in.planes + (int64_t(blockIdx.y) * blocks + b) * record_bytes,
                 items.x.codes[from * 32 + lane], items.x.scales[from]);
}

// Tiles 0, 1: rows 0..15 and 16..31 of w1; tiles 2, 3: of w3.
template <int steps, int depth>
__global__ void __launch_bounds__(threads, 4)
    one_gate_up_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float lanes[tiles][16][8];
    const Item& item = items.at[blockIdx.y];
    int w = threadIdx.x / warp, lane = threadIdx.x % warp, tile = w / 2;
    Rows<steps, depth> rows(tile < 2 ? item.c1 : item.c3, tile < 2 ? item.s1 : item.s3,
                            blockIdx.x * 32 + tile % 2 * 16, w % 2);
    start_after_previous();
    constexpr int blocks = steps * 8;
    Row x = stage<blocks>(items.in.planes + int64_t(blockIdx.y) * blocks * record_bytes, memory);
    rows.run(x, lanes[tile]);
    __syncthreads();
    if (w != 0) return;
    int low = lane / 16, row = lane % 16;
    float gate = round_bf16(tree(lanes[low][row])), up = round_bf16(tree(lanes[2 + low][row]));
    quantise_block<record_bytes>(swiglu_value(gate, up, item.weight, items.limit), items,
                                 int64_t(blockIdx.y) * (items.inner / 32) + blockIdx.x,
                                 [&](int64_t b, uint8_t code, uint8_t byte) {
                                     store_record(items.act.planes + b * record_bytes, code, byte);
                                 });
}

// 64 rows per block of threads: dim is a multiple of that.
template <int steps, int depth>
__global__ void __launch_bounds__(threads, 4) one_down_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float lanes[tiles][16][8];
    const Item& item = items.at[blockIdx.y];
    int w = threadIdx.x / warp, row0 = blockIdx.x * tiles * 16;
    Rows<steps, depth> rows(item.c2, item.s2, row0 + w / 2 * 16, w % 2);
    start_after_previous();
    constexpr int blocks = steps * 8;
    Row x = stage<blocks>(items.act.planes + int64_t(blockIdx.y) * blocks * record_bytes, memory);
    rows.run(x, lanes[w / 2]);
    __syncthreads();
    if (threadIdx.x < tiles * 16)
        item.out[int64_t(*item.slot) * items.dim + row0 + threadIdx.x] =
            to_bf16(tree(lanes[threadIdx.x / 16][threadIdx.x % 16]));
}

}  // namespace

// The shapes of V4.1, V4-Flash and V4-Pro, and some that test the same code at less cost.
bool launch_items(const Items& items, int count, Lane lane) {
    unsigned n = unsigned(count);
    auto start = [&](auto gate_up, int dim, auto down, int inner) {
        launch_kernel(one_digits_kernel, dim3(ceil_div(dim / 32, 8), n), 256, 0, lane, items);
        launch_kernel(gate_up, dim3(inner / 32, n), threads, row_bytes(dim / 32), lane, items);
        launch_kernel(down, dim3(dim / (tiles * 16), n), threads, row_bytes(inner / 32), lane,
                      items);
        return true;
    };
    if (items.dim == 5120 && items.inner == 2304)
        return start(one_gate_up_kernel<20, 2>, 5120, one_down_kernel<9, 1>, 2304);
    if (items.dim == 4096 && items.inner == 2048)
        return start(one_gate_up_kernel<16, 2>, 4096, one_down_kernel<8, 2>, 2048);
    if (items.dim == 7168 && items.inner == 3072)
        return start(one_gate_up_kernel<28, 2>, 7168, one_down_kernel<12, 2>, 3072);
    if (items.dim == 1024 && items.inner == 768)
        return start(one_gate_up_kernel<4, 2>, 1024, one_down_kernel<3, 1>, 768);
    return false;
}

}  // namespace sluice::cuda
