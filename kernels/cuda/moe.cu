// RoutedExpert: exact integers inside a block of 32, so bit-equal to the CPU whatever unit does the
// products.
//
// An E4M3 value in units of 2^-9 is 18 bits and a sign: three signed base-256 digits. Weights are
// twice E2M1, offset by 12 for dp4a (undone by the sum of the block's activations) and signed for
// the tensor cores. One activation row: dp4a, a lane a block, a warp eight (or four) output rows.
// More rows: int8 matrix instructions, 16 output rows x 16 rows a warp. Both add the blocks' terms
// in the eight lanes of the contract.
//
// Two kernels an expert batch: gate, up, SwiGLU and quantisation together (a block of threads owns
// 32 rows of both matrices, which is one quantisation group), then down.
#include "kernels/cuda/moe.cuh"

namespace sluice::cuda {
namespace {

constexpr int digits_stride = 112;  // in shared memory: lanes a block apart meet no bank twice

// ---- one activation row
// ----------------------------------------------------------------------------

// Shared memory of one activation row: digits, scales, sums of its blocks.
struct Row {
    uint8_t* digits;
    float* scale;
    int* sum;
};

// Six 16-byte pieces a block, whose digits also give its sum.
__device__ Row stage_row(const Digits& from, int64_t row, int blocks, std::byte* memory) {
    Row to{(uint8_t*)memory, (float*)(memory + blocks * digits_stride), nullptr};
    to.sum = (int*)(to.scale + blocks);
    const uint4* planes = (const uint4*)(from.planes + row * blocks * digits_bytes);
    for (int i = threadIdx.x; i < blocks * 6; i += blockDim.x)
        *(uint4*)(to.digits + i / 6 * digits_stride + i % 6 * 16) = planes[i];
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
        int low = (int)weights_offset(w[i], flipped),
            high = (int)weights_offset(w[i] >> 16, flipped >> 16);
        s0 = __dp4a(high, (int)x[2 * i + 1], __dp4a(low, (int)x[2 * i], s0));
        s1 = __dp4a(high, (int)x[8 + 2 * i + 1], __dp4a(low, (int)x[8 + 2 * i], s1));
        s2 = __dp4a(high, (int)x[16 + 2 * i + 1], __dp4a(low, (int)x[16 + 2 * i], s2));
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
            int64_t at = (int64_t)(r0 + r) * blocks + b;
            next[r] = b < blocks ? __ldg((const uint4*)(codes + at * 16)) : make_uint4(0, 0, 0, 0);
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
        for (int i = 0; i < 6; ++i) d[i] = *(const uint4*)(x.digits + at * digits_stride + i * 16);
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

// y[i] without an indexed register array.
__device__ inline float pick(const float (&y)[4], int i) {
    return i == 0 ? y[0] : i == 1 ? y[1] : i == 2 ? y[2] : y[3];
}

__global__ void item_digits_kernel(__grid_constant__ const Items items) {
    int blocks = items.dim / 32, lane = threadIdx.x % warp;
    int b = blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (b >= blocks) return;
    int64_t from = (int64_t)*items.at[blockIdx.y].row * blocks + b;
    store_digits(items.in, (int64_t)blockIdx.y * blocks + b, items.x.codes[from * 32 + lane],
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
    uint8_t code, byte;
    swiglu_lane(gate[lane], up[lane], item.weight, items.limit, &code, &byte);
    store_digits(items.act, (int64_t)blockIdx.y * (items.inner / 32) + blockIdx.x, code, byte);
}

__global__ void __launch_bounds__(row_block) down_row_kernel(__grid_constant__ const Items items) {
    extern __shared__ __align__(16) std::byte memory[];
    const Item& item = items.at[blockIdx.y];
    int blocks = items.inner / 32, w = threadIdx.x / warp, lane = threadIdx.x % warp;
    Row x = stage_row(items.act, blockIdx.y, blocks, memory);
    int row0 = blockIdx.x * 32 + w * 4;
    float y[4];
    warp_rows<4>(item.c2, item.s2, row0, blocks, x, y);
    if (lane < 4) item.out[(int64_t)*item.slot * items.dim + row0 + lane] = to_bf16(pick(y, lane));
}

size_t row_shared(int cols) {
    return (size_t)(cols / 32) * (digits_stride + sizeof(float) + sizeof(int));
}

// ---- more activation rows
// -------------------------------------------------------------------------

constexpr int tile_rows = 16, tile_tokens = 16;

__global__ void digits_kernel(QuantRows x, const int32_t* rows, int cols, Digits to) {
    int blocks = cols / 32, lane = threadIdx.x % warp;
    int b = blockIdx.x * (blockDim.x / warp) + threadIdx.x / warp;
    if (b >= blocks) return;
    int64_t from = rows[blockIdx.y];
    store_digits(to, (int64_t)blockIdx.y * blocks + b, x.codes[from * cols + b * 32 + lane],
                 x.scales[from * blocks + b]);
}

// A warp's tile: 16 rows of W from row0, tokens token0 .. + 15. Values in y[tile of 8
// tokens][fragment], already summed.
__device__ void tile_product(const Fp4Matrix& w, int row0, const Digits& x, int token0, int count,
                             float (&y)[2][4]) {
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4, blocks = w.cols / 32;
    float acc[8][2][4];
#pragma unroll
    for (int i = 0; i < 64; ++i) acc[i / 8][i / 4 % 2][i % 4] = 0.0f;
    int low = row0 + g, high = row0 + g + 8;
    for (int base = 0; base < blocks; base += 8) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            int b = base + j;
            if (b >= blocks) continue;
            uint32_t cl =
                low < w.rows
                    ? __ldg((const uint32_t*)(w.codes + ((int64_t)low * blocks + b) * 16) + quad)
                    : 0;
            uint32_t ch =
                high < w.rows
                    ? __ldg((const uint32_t*)(w.codes + ((int64_t)high * blocks + b) * 16) + quad)
                    : 0;
            float sl =
                low < w.rows ? e8m0_to_float(__ldg(w.scales + (int64_t)low * blocks + b)) : 1.0f;
            float sh =
                high < w.rows ? e8m0_to_float(__ldg(w.scales + (int64_t)high * blocks + b)) : 1.0f;
            uint32_t fl = cl ^ 0x88888888u, fh = ch ^ 0x88888888u;
            uint32_t a0 = weights_signed(cl, fl), a2 = weights_signed(cl >> 16, fl >> 16);
            uint32_t a1 = weights_signed(ch, fh), a3 = weights_signed(ch >> 16, fh >> 16);
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                int token = token0 + t * 8 + g;
                const uint8_t* plane =
                    x.planes + ((int64_t)token * blocks + b) * digits_bytes + quad * 8;
                int c[3][4];
#pragma unroll
                for (int d = 0; d < 3; ++d) {
                    uint2 v = token < count ? *(const uint2*)(plane + d * 32) : make_uint2(0, 0);
                    c[d][0] = c[d][1] = c[d][2] = c[d][3] = 0;
                    mma_s8(c[d], a0, a1, a2, a3, v.x, v.y);
                }
                int column = token0 + t * 8 + 2 * quad;
                float x0 = column < count ? x.scale[(int64_t)column * blocks + b] : 0.0f;
                float x1 = column + 1 < count ? x.scale[(int64_t)(column + 1) * blocks + b] : 0.0f;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    acc[j][t][i] = acc[j][t][i] + term(c[0][i] + c[1][i] * 256 + c[2][i] * 65536,
                                                       i % 2 ? x1 : x0, i < 2 ? sl : sh);
            }
        }
    }
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float v0 = acc[0][t][i] + acc[4][t][i], v1 = acc[1][t][i] + acc[5][t][i];
            float v2 = acc[2][t][i] + acc[6][t][i], v3 = acc[3][t][i] + acc[7][t][i];
            y[t][i] = (v0 + v2) + (v1 + v3);
        }
}

struct Tile {
    ExpertWeights expert;
    Digits x, act;
    const float* weights;
    const int32_t* slots;
    bf16* out;
    int count;
    float limit;
};

// Warps 0, 1: rows 0..15 and 16..31 of w1; warps 2, 3: of w3.
__global__ void __launch_bounds__(128) gate_up_tile_kernel(Tile tile) {
    __shared__ float values[2][32][tile_tokens + 1];
    int w = threadIdx.x / warp, lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    int row0 = blockIdx.x * 32, token0 = blockIdx.y * tile_tokens,
        inner_blocks = tile.expert.w1.rows / 32;
    float y[2][4];
    tile_product(w < 2 ? tile.expert.w1 : tile.expert.w3, row0 + (w % 2) * 16, tile.x, token0,
                 tile.count, y);
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            values[w / 2][(w % 2) * 16 + g + (i / 2) * 8][t * 8 + 2 * quad + i % 2] =
                round_bf16(y[t][i]);
    __syncthreads();
    for (int t = w; t < tile_tokens; t += 4) {
        int token = token0 + t;
        if (token >= tile.count) break;
        uint8_t code, byte;
        swiglu_lane(values[0][lane][t], values[1][lane][t], tile.weights + token, tile.limit, &code,
                    &byte);
        store_digits(tile.act, (int64_t)token * inner_blocks + blockIdx.x, code, byte);
    }
}

__global__ void __launch_bounds__(128) down_tile_kernel(Tile tile) {
    int w = threadIdx.x / warp, lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    int row0 = (blockIdx.x * 4 + w) * tile_rows, token0 = blockIdx.y * tile_tokens;
    if (row0 >= tile.expert.w2.rows) return;
    float y[2][4];
    tile_product(tile.expert.w2, row0, tile.act, token0, tile.count, y);
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int token = token0 + t * 8 + 2 * quad + i % 2, row = row0 + g + (i / 2) * 8;
            if (token < tile.count && row < tile.expert.w2.rows)
                tile.out[(int64_t)tile.slots[token] * tile.expert.w2.rows + row] = to_bf16(y[t][i]);
        }
}

size_t align256(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

Digits carve(std::byte*& memory, int count, int blocks) {
    Digits d{(uint8_t*)memory, nullptr};
    memory += align256((size_t)count * blocks * digits_bytes);
    d.scale = (float*)memory;
    memory += align256((size_t)count * blocks * sizeof(float));
    return d;
}

}  // namespace

size_t expert_workspace(int count, int dim, int inner) {
    size_t blocks = dim / 32 + inner / 32;
    int rows = count > items_max ? count : items_max;
    return (size_t)rows * blocks * (digits_bytes + sizeof(float) + sizeof(int)) + 1024;
}

void launch_rows(const RoutedExpert* ops, int count, Workspace& work, Lane lane) {
    Items items{};
    items.dim = ops[0].expert.w1.cols;
    items.inner = ops[0].expert.w1.rows;
    items.limit = ops[0].limit;
    items.x = ops[0].x;
    std::byte* memory = work.memory;
    items.in = carve(memory, count, items.dim / 32);
    items.act = carve(memory, count, items.inner / 32);
    items.in_sums = (int*)memory;
    items.act_sums = items.in_sums + count * (items.dim / 32);
    for (int i = 0; i < count; ++i) {
        const ExpertWeights& e = ops[i].expert;
        items.at[i] = {e.w1.codes,  e.w1.scales, e.w2.codes,   e.w2.scales,    e.w3.codes,
                       e.w3.scales, ops[i].rows, ops[i].slots, ops[i].weights, ops[i].out};
    }
    if (launch_items(items, count, lane)) return;
    unsigned n = (unsigned)count;
    item_digits_kernel<<<dim3(ceil_div(items.dim / 32, 8), n), 256, 0, lane>>>(items);
    gate_up_row_kernel<<<dim3(items.inner / 32, n), row_block, row_shared(items.dim), lane>>>(
        items);
    down_row_kernel<<<dim3(items.dim / 32, n), row_block, row_shared(items.inner), lane>>>(items);
}

// Neighbouring items of one row go together.
void launch(const RoutedExpertBatch& op, Workspace& work, Lane lane) {
    for (int i = 0; i < op.count;) {
        int end = i;
        while (end < op.count && end - i < items_max && op.items[end].count == 1 &&
               op.items[end].x.codes == op.items[i].x.codes)
            ++end;
        if (end > i)
            launch_rows(op.items + i, end - i, work, lane);
        else
            launch(op.items[end++], work, lane);
        i = end;
    }
}

void launch(const RoutedExpert& op, Workspace& work, Lane lane) {
    if (!op.count) return;
    if (op.count == 1) return launch_rows(&op, 1, work, lane);
    int dim = op.expert.w1.cols, inner = op.expert.w1.rows;
    std::byte* memory = work.memory;
    Tile tile{};
    tile.expert = op.expert;
    tile.x = carve(memory, op.count, dim / 32);
    tile.act = carve(memory, op.count, inner / 32);
    tile.weights = op.weights;
    tile.slots = op.slots;
    tile.out = op.out;
    tile.count = op.count;
    tile.limit = op.limit;
    digits_kernel<<<dim3(ceil_div(dim / 32, 8), op.count), 256, 0, lane>>>(op.x, op.rows, dim,
                                                                           tile.x);
    unsigned tokens = ceil_div(op.count, tile_tokens);
    gate_up_tile_kernel<<<dim3(inner / 32, tokens), 128, 0, lane>>>(tile);
    down_tile_kernel<<<dim3(ceil_div(dim, 4 * tile_rows), tokens), 128, 0, lane>>>(tile);
}

}  // namespace sluice::cuda
