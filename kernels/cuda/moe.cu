// Source of device.cuh. RoutedExpert: exact integers inside a block of 32, and so bit-identical to
// the CPU whatever unit computes the products.
//
// An E4M3 value in units of 2^-9 is 18 bits and a sign: three signed base-256 digits. Weights are
// twice E2M1, offset by 12 for dp4a, which the sum of the block's activations undoes. A lane takes
// a block, a warp four output rows; the terms of the blocks are added in the eight lanes of the
// contract. moe_wide.cu handles two activation rows or more.
//
// Two kernels per batch of experts: gate, up, SwiGLU and quantisation together (a block of threads
// owns 32 rows of both matrices, which is a quantisation group or a quarter of one), then down.
#include "kernels/cuda/moe.cuh"
#include "kernels/cuda/wide.cuh"

namespace sluice::cuda {
namespace {

// Bytes of a block in shared memory: lanes one block apart use different banks.
constexpr int digits_stride = 112;

// ---- one activation row -------------------------------------------------------------------------

// One activation row in shared memory: digits, scales and sums of its blocks.
struct Row {
    uint8_t* digits;
    float* scale;
    int* sum;
};

// Six 16-byte pieces per block, whose digits also give its sum.
__device__ Row stage_row(const Digits& from, int64_t row, int blocks, std::byte* memory) {
    Row to{reinterpret_cast<uint8_t*>(memory),
           reinterpret_cast<float*>(memory + blocks * digits_stride), nullptr};
    to.sum = reinterpret_cast<int*>(to.scale + blocks);
    const uint4* planes = reinterpret_cast<const uint4*>(from.planes + row * blocks * digits_bytes);
    for (int i = threadIdx.x; i < blocks * 6; i += blockDim.x)
        *reinterpret_cast<uint4*>(to.digits + i / 6 * digits_stride + i % 6 * 16) = planes[i];
    for (int b = threadIdx.x; b < blocks; b += blockDim.x) {
        to.scale[b] = from.scale[row * blocks + b];
        to.sum[b] = block_sum_of(planes + b * 6);
    }
    __syncthreads();
    return to;
}

__device__ inline int block_integer(uint4 codes, const uint4 (&d)[6], int sum) {
    const uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
    const uint32_t x[24] = {d[0].x, d[0].y, d[0].z, d[0].w, d[1].x, d[1].y, d[1].z, d[1].w,
                            d[2].x, d[2].y, d[2].z, d[2].w, d[3].x, d[3].y, d[3].z, d[3].w,
                            d[4].x, d[4].y, d[4].z, d[4].w, d[5].x, d[5].y, d[5].z, d[5].w};
    int s0 = 0, s1 = 0, s2 = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uint32_t flipped = w[i] ^ 0x88888888u;
        int low = int(weights_offset(w[i], flipped)),
            high = int(weights_offset(w[i] >> 16, flipped >> 16));
        s0 = __dp4a(high, int(x[2 * i + 1]), __dp4a(low, int(x[2 * i]), s0));
        s1 = __dp4a(high, int(x[8 + 2 * i + 1]), __dp4a(low, int(x[8 + 2 * i]), s1));
        s2 = __dp4a(high, int(x[16 + 2 * i + 1]), __dp4a(low, int(x[16 + 2 * i]), s2));
    }
    return s0 + s1 * 256 + s2 * 65536 - 12 * sum;
}

// y[r] = row r0 + r of W x, in every lane. The eight lanes of the contract are lane % 8, kept in
// all four copies.
template <int rows>
__device__ void warp_rows(const uint8_t* codes, const uint8_t* scales, int r0, int blocks,
                          const Row& x, float (&y)[rows]) {
    int lane = threadIdx.x % warp;
#pragma unroll
    for (int r = 0; r < rows; ++r) y[r] = 0.0f;
    uint4 next[rows];
    uint8_t next_scale[rows];
    auto fetch = [&](int b) {
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            int64_t at = int64_t(r0 + r) * blocks + b;
            next[r] = b < blocks ? __ldg(reinterpret_cast<const uint4*>(codes + at * 16))
                                 : make_uint4(0, 0, 0, 0);
            next_scale[r] = b < blocks ? __ldg(scales + at) : 127;
        }
    };
    fetch(lane);
    for (int base = 0; base < blocks; base += warp) {
        int b = base + lane;
        bool inside = b < blocks;
        uint4 c[rows];
        uint8_t s[rows];
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            c[r] = next[r];
            s[r] = next_scale[r];
        }
        fetch(b + warp);
        int at = inside ? b : 0;
        uint4 d[6];
#pragma unroll
        for (int i = 0; i < 6; ++i)
            d[i] = *reinterpret_cast<const uint4*>(x.digits + at * digits_stride + i * 16);
        float s_x = x.scale[at];
        int sum = x.sum[at];
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            float t = inside ? term(block_integer(c[r], d, sum), s_x, e8m0_to_float(s[r])) : 0.0f;
#pragma unroll
            for (int i = 0; i < 4; ++i) y[r] = y[r] + __shfl_sync(0xffffffffu, t, lane % 8 + i * 8);
        }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int off = 4; off > 0; off >>= 1) y[r] = y[r] + __shfl_xor_sync(0xffffffffu, y[r], off);
}

constexpr int row_block = 256;

// y[i] without an indexed array of registers.
__device__ inline float pick(const float (&y)[4], int i) {
    return i == 0 ? y[0] : i == 1 ? y[1] : i == 2 ? y[2] : y[3];
}

__global__ void item_digits_kernel(__grid_constant__ const Items items) {
    int blocks = items.dim / 32, lane = threadIdx.x % warp;
    int b = blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (b >= blocks) return;
    int64_t from = int64_t(*items.at[blockIdx.y].row) * blocks + b;
    store_digits(items.in, int64_t(blockIdx.y) * blocks + b, items.x.codes[from * 32 + lane],
                 items.x.scales[from]);
}

__global__ void __launch_bounds__(row_block)
    gate_up_row_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    __shared__ float gate[32], up[32];
    const Item& item = items.at[blockIdx.y];
    int blocks = items.dim / 32, w = threadIdx.x / warp, lane = threadIdx.x % warp;
    Row x = stage_row(items.in, blockIdx.y, blocks, memory);
    int row0 = blockIdx.x * 32;
    float y[4];
    warp_rows<4>(item.c1, item.s1, row0 + w * 4, blocks, x, y);
    if (lane < 4) gate[w * 4 + lane] = round_bf16(pick(y, lane));
    warp_rows<4>(item.c3, item.s3, row0 + w * 4, blocks, x, y);
    if (lane < 4) up[w * 4 + lane] = round_bf16(pick(y, lane));
    __syncthreads();
    if (w != 0) return;
    quantise_block<digits_bytes>(
        swiglu_value(gate[lane], up[lane], item.weight, items.limit), items,
        int64_t(blockIdx.y) * (items.inner / 32) + blockIdx.x,
        [&](int64_t b, uint8_t code, uint8_t byte) { store_digits(items.act, b, code, byte); });
}

__global__ void __launch_bounds__(row_block) down_row_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    const Item& item = items.at[blockIdx.y];
    int blocks = items.inner / 32, w = threadIdx.x / warp, lane = threadIdx.x % warp;
    Row x = stage_row(items.act, blockIdx.y, blocks, memory);
    int row0 = blockIdx.x * 32 + w * 4;
    float y[4];
    warp_rows<4>(item.c2, item.s2, row0, blocks, x, y);
    if (lane < 4) item.out[int64_t(*item.slot) * items.dim + row0 + lane] = to_bf16(pick(y, lane));
}

size_t row_shared(int cols) {
    return size_t(cols / 32) * (digits_stride + sizeof(float) + sizeof(int));
}

size_t align256(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

Digits carve(std::byte*& memory, int count, int blocks) {
    Digits d{reinterpret_cast<uint8_t*>(memory), nullptr};
    memory += align256(size_t(count) * blocks * record_bytes);
    d.scale = reinterpret_cast<float*>(memory);
    memory += align256(size_t(count) * blocks * sizeof(float));
    return d;
}

}  // namespace

size_t expert_scratch_bytes(int count, int dim, int inner) {
    size_t blocks = dim / 32 + inner / 32;
    size_t one = items_max * blocks * (record_bytes + sizeof(float)) + 1024,
           wide = expert_wide_scratch_bytes(count, dim, inner);
    return one > wide ? one : wide;
}

int expert_rows(const Shapes& largest) {
    constexpr int least = 40 * 64;
    int rows = largest.n * (largest.top_k > 1 ? largest.top_k : 1);
    return rows > least ? rows : least;
}

void launch_rows(const RoutedExpert* ops, int count, Lane lane) {
    Items items{};
    items.dim = ops[0].expert.w1.cols;
    items.inner = ops[0].expert.w1.rows;
    items.limit = ops[0].limit;
    items.tickets = tickets_of(ops[0].group, lane);
    items.x = ops[0].x;
    std::byte* memory = lane.scratch.memory;
    items.in = carve(memory, count, items.dim / 32);
    items.act = carve(memory, count, items.inner / 32);
    for (int i = 0; i < count; ++i) {
        const ExpertWeights& e = ops[i].expert;
        items.at[i] = {e.w1.codes,  e.w1.scales, e.w2.codes,   e.w2.scales,    e.w3.codes,
                       e.w3.scales, ops[i].rows, ops[i].slots, ops[i].weights, ops[i].out};
    }
    if (launch_items(items, count, lane)) return;
    unsigned n = unsigned(count);
    launch_plain(item_digits_kernel, dim3(ceil_div(items.dim / 32, 8), n), 256, 0, lane, items);
    launch_plain(gate_up_row_kernel, dim3(items.inner / 32, n), row_block, row_shared(items.dim),
                 lane, items);
    launch_plain(down_row_kernel, dim3(items.dim / 32, n), row_block, row_shared(items.inner), lane,
                 items);
}

// Items of one row go together, as long as they have the same activations; so do those of more
// rows.
bool launch(const RoutedExpertBatch& op, Lane lane) {
    RoutedExpert run[items_max];
    int held = 0;
    for (int i = 0; i < op.count; ++i) {
        const RoutedExpert& item = op.items[i];
        if (item.count != 1) continue;
        if (held == items_max || (held && run[0].x.codes != item.x.codes)) {
            launch_rows(run, held, lane);
            held = 0;
        }
        run[held++] = item;
    }
    if (held) launch_rows(run, held, lane);
    launch_wide(op.items, op.count, lane);
    return true;
}

void launch(const RoutedExpert& op, Lane lane) {
    launch(RoutedExpertBatch{&op, 1}, lane);
}

}  // namespace sluice::cuda
