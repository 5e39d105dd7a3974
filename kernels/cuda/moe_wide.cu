// Source of wide.cuh. RoutedExpert on two rows or more: all experts of a batch in one launch, with
// the products of moe_wide.cuh.
//
// Gate and up rows share a tile, so that SwiGLU and quantisation happen in registers. Groups of 128
// span four tiles: a kernel of its own quantises them, and the activations lie where the outputs
// will be until then.
#include "kernels/cuda/moe_wide.cuh"

namespace sluice::cuda {
namespace {

constexpr int items_max = 40;

struct Item {
    const uint8_t *c1, *s1, *c2, *s2, *c3, *s3;
    const int32_t *rows, *slots;
    const float* weights;
    bf16* out;
    int count, tile0;  // its first tile of 64 token rows
};
// Arrays over token rows have whole tiles of them; scales are in the order [tile][block][64].
struct Batch {
    Item at[items_max];
    QuantRows x;
    int32_t *rows, *slots;  // the items' lists, in device memory
    float* weights;
    float* x_scale;
    uint8_t* act;
    float* act_scale;
    bf16* values;  // [row][inner], activations before a group of 128; null: in the rows of `out`
    int items, tiles, dim, inner;
    float limit;
};

__host__ __device__ inline int padded(int cols) {
    return ceil_div(cols / 32, lanes) * lanes;
}

__device__ inline int item_of_tile(const Batch& batch, int at) {
    int i = 0;
    while (i + 1 < batch.items && at >= batch.at[i + 1].tile0) ++i;
    return i;
}

// Lists may lie in host memory, so they are read once.
__global__ void lists_kernel(__grid_constant__ const Batch batch) {
    const Item& item = batch.at[item_of_tile(batch, blockIdx.x)];
    int from = min(int(blockIdx.x - item.tile0) * tile + int(threadIdx.x), item.count - 1);
    int to = blockIdx.x * tile + threadIdx.x;
    batch.rows[to] = item.rows[from];
    batch.slots[to] = item.slots[from];
    batch.weights[to] = item.weights[from];
}

__global__ void x_scales_kernel(__grid_constant__ const Batch batch) {
    int blocks = batch.dim / 32, all = padded(batch.dim), t = threadIdx.x % tile;
    int b = blockIdx.y * (blockDim.x / tile) + threadIdx.x / tile;
    if (b >= all) return;
    float scale = 1.0f;
    if (b < blocks) {
        int64_t from = int64_t(batch.rows[blockIdx.x * tile + t]) * blocks + b;
        const uint4* codes = reinterpret_cast<const uint4*>(batch.x.codes + from * 32);
        int sum = 0, exponent = 15;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint4 v = __ldg(codes + half);
            const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                uint8_t code = word[i / 4] >> (8 * (i % 4)) & 0x7f;
                sum += e4m3_to_int(code);
                exponent = min(exponent, exponent_of(code));
            }
        }
        scale = e8m0_to_float(__ldg(batch.x.scales + from));
        if (is_wide(sum, exponent)) scale = -scale;
    }
    batch.x_scale[(int64_t(blockIdx.x) * all + b) * tile + t] = scale;
}

// ---- the two kernels ----------------------------------------------------------------------------

// The row tiles of an item follow one another; its token tiles are innermost.
struct Place {
    int item, row_tile, token_tile;
};
__device__ inline Place place_of(const Batch& batch, int row_tiles) {
    int at = blockIdx.x, i = item_of_tile(batch, at / row_tiles);
    at -= batch.at[i].tile0 * row_tiles;
    int tiles = ceil_div(batch.at[i].count, tile);
    return {i, at / tiles, at % tiles};
}
__device__ inline int token_tiles_of(const Item& item, int token_tile) {
    return ceil_div(min(tile, item.count - token_tile * tile), 8);
}

// Over the eight lanes of a place in the quad: they hold the 32 values of one token.
__device__ inline float column_max(float x) {
#pragma unroll
    for (int off = 4; off < warp; off <<= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, off));
    return x;
}
__device__ inline bool column_any(bool x) {
    return (__ballot_sync(0xffffffffu, x) & 0x11111111u << threadIdx.x % 4) != 0;
}

// ActQuant of rows 8 k + g, k = 0 .. 3, of one token; `scale` carries the mark.
__device__ inline void quantise_column(const float (&v)[4], uint8_t (&code)[4], float* scale) {
    bool bad = false;
    float a = 0.0f;
    int sum = 0, exponent = 15;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        bad |= !is_finite(v[k]);
        a = fmaxf(a, fabsf(v[k]));
    }
    bad = column_any(bad);
    a = fmaxf(column_max(a), 1e-4f);
    uint8_t byte = bad ? 255 : e8m0_ceil(a * (1.0f / 448.0f));
    float inverse = bad ? 0.0f : exp2i(127 - int(byte));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float q = fminf(fmaxf(v[k] * inverse, -448.0f), 448.0f);
        code[k] = bad ? 0 : float_to_e4m3(q);
        sum += e4m3_to_int(code[k] & 0x7f);
        exponent = min(exponent, exponent_of(code[k]));
    }
#pragma unroll
    for (int off = 4; off < warp; off <<= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, off);
        exponent = min(exponent, __shfl_xor_sync(0xffffffffu, exponent, off));
    }
    *scale = e8m0_to_float(byte);
    if (is_wide(sum, exponent)) *scale = -*scale;
}

// The activations of token row `at` before they are quantised in groups of 128.
__device__ inline bf16* values_of(const Batch& batch, const Item& item, int64_t at) {
    return batch.values ? batch.values + at * batch.inner
                        : item.out + int64_t(batch.slots[at]) * batch.dim;
}

template <bool quantises>
__global__ void __launch_bounds__(threads)
    gate_up_wide_kernel(__grid_constant__ const Batch batch) {
    int in = batch.dim / 32, w = threadIdx.x / warp, quad = threadIdx.x % 4;
    Place place = place_of(batch, batch.inner / 32);
    const Item& item = batch.at[place.item];
    int row0 = place.row_tile * 32, g = threadIdx.x % warp / 4;
    int64_t at = item.tile0 + place.token_tile, weight = int64_t(row0) * in;
    Source from{{item.c1 + weight * 16, item.c3 + weight * 16},
                {item.s1 + weight, item.s3 + weight},
                batch.x.codes,
                batch.rows + at * tile,
                batch.x_scale + at * padded(batch.dim) * tile,
                in,
                token_tiles_of(item, place.token_tile)};
    float y[16];
    tile_product(from, y);
    if (w >= from.token_tiles) return;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        int64_t token = at * tile + w * 8 + 2 * quad + e;
        float v[4], scale;
        uint8_t code[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            v[k] = swiglu_value(round_bf16(y[2 * k + e]), round_bf16(y[8 + 2 * k + e]),
                                batch.weights + token, batch.limit);
        if constexpr (!quantises) {
            if (token - int64_t(item.tile0) * tile >= item.count) continue;
            bf16* to = values_of(batch, item, token) + row0 + g;
#pragma unroll
            for (int k = 0; k < 4; ++k) to[k * 8] = to_bf16(v[k]);
            continue;
        }
        quantise_column(v, code, &scale);
#pragma unroll
        for (int k = 0; k < 4; ++k) batch.act[token * batch.inner + row0 + k * 8 + g] = code[k];
        if (g == 0)
            batch.act_scale[(at * padded(batch.inner) + place.row_tile) * tile + token % tile] =
                scale;
    }
}

// A warp per token row and group of 128; rows of a tile beyond the last token become 0.
__global__ void __launch_bounds__(threads)
    quantise_wide_kernel(__grid_constant__ const Batch batch) {
    int lane = threadIdx.x % warp, groups = batch.inner / 128;
    int64_t at = int64_t(blockIdx.x) * (threads / warp) + threadIdx.x / warp, row = at / groups;
    if (row >= int64_t(batch.tiles) * tile) return;
    const Item& item = batch.at[item_of_tile(batch, int(row / tile))];
    int column = int(at % groups) * 128 + lane * 4;
    bool inside = row - int64_t(item.tile0) * tile < item.count, finite = true;
    const bf16* from = values_of(batch, item, row) + column;
    float v[4], a = 1e-4f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = inside ? to_float(from[i]) : 0.0f;
        finite = finite && is_finite(v[i]);
        a = fmaxf(a, fabsf(v[i]));
    }
    bool bad = group_any<32>(!finite);
    uint8_t byte = bad ? 255 : e8m0_ceil(warp_max(a) * (1.0f / 448.0f));
    float inverse = bad ? 0.0f : exp2i(127 - int(byte));
    uint32_t codes = 0;
    int sum = 0, exponent = 15;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uint8_t code = bad ? 0 : float_to_e4m3(fminf(fmaxf(v[i] * inverse, -448.0f), 448.0f));
        codes |= uint32_t(code) << (8 * i);
        sum += e4m3_to_int(code & 0x7f);
        exponent = min(exponent, exponent_of(code));
    }
#pragma unroll
    for (int off = 1; off < 8; off <<= 1) {  // the eight lanes of a block of 32
        sum += __shfl_xor_sync(0xffffffffu, sum, off);
        exponent = min(exponent, __shfl_xor_sync(0xffffffffu, exponent, off));
    }
    *reinterpret_cast<uint32_t*>(batch.act + row * batch.inner + column) = codes;
    float scale = e8m0_to_float(byte);
    if (lane % 8 == 0)
        batch.act_scale[(row / tile * padded(batch.inner) + column / 32) * tile + row % tile] =
            is_wide(sum, exponent) ? -scale : scale;
}

__global__ void __launch_bounds__(threads) down_wide_kernel(__grid_constant__ const Batch batch) {
    int in = batch.inner / 32, w = threadIdx.x / warp, quad = threadIdx.x % 4;
    Place place = place_of(batch, ceil_div(batch.dim, tile));
    const Item& item = batch.at[place.item];
    int row0 = place.row_tile * tile, g = threadIdx.x % warp / 4;
    int64_t at = item.tile0 + place.token_tile, low = int64_t(row0) * in;
    int64_t high = row0 + 32 < batch.dim ? low + 32 * in : low;  // absent: not stored
    Source from{{item.c2 + low * 16, item.c2 + high * 16},
                {item.s2 + low, item.s2 + high},
                batch.act + at * tile * batch.inner,
                nullptr,
                batch.act_scale + at * padded(batch.inner) * tile,
                in,
                token_tiles_of(item, place.token_tile)};
    float y[16];
    tile_product(from, y);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        int token = w * 8 + 2 * quad + e;
        if (place.token_tile * tile + token >= item.count) continue;
        bf16* out = item.out + int64_t(batch.slots[at * tile + token]) * batch.dim + row0 + g;
#pragma unroll
        for (int k = 0; k < 8; ++k)
            if (row0 + k * 8 < batch.dim) out[k * 8] = to_bf16(y[2 * k + e]);
    }
}

size_t row_bytes(int dim, int inner) {
    size_t values = inner > dim ? inner * sizeof(bf16) : 0;  // else the rows of `out` have room
    return 3 * sizeof(int32_t) + (padded(dim) + padded(inner)) * sizeof(float) + inner + values;
}

// Every array starts at a multiple of 256 bytes.
template <class T>
void carve(std::byte*& memory, T*& array, size_t count) {
    array = reinterpret_cast<T*>(memory);
    memory += (count * sizeof(T) + 255) / 256 * 256;
}

void launch_batch(Batch& batch, int group, Lane lane) {
    std::byte* memory = lane.scratch.memory;
    size_t rows = size_t(batch.tiles) * tile;
    carve(memory, batch.rows, rows);
    carve(memory, batch.slots, rows);
    carve(memory, batch.weights, rows);
    carve(memory, batch.x_scale, rows * padded(batch.dim));
    carve(memory, batch.act, rows * batch.inner);
    carve(memory, batch.act_scale, rows * padded(batch.inner));
    if (batch.inner > batch.dim) carve(memory, batch.values, rows * batch.inner);
    launch_plain(lists_kernel, batch.tiles, tile, 0, lane, batch);
    launch_plain(x_scales_kernel, dim3(batch.tiles, padded(batch.dim) / 4), 4 * tile, 0, lane,
                 batch);
    launch_plain(group == 128 ? gate_up_wide_kernel<false> : gate_up_wide_kernel<true>,
                 batch.tiles * (batch.inner / 32), threads, shared_bytes, lane, batch);
    if (group == 128)
        launch_plain(quantise_wide_kernel,
                     unsigned(ceil_div(rows * (batch.inner / 128), size_t(threads / warp))),
                     threads, 0, lane, batch);
    launch_plain(down_wide_kernel, batch.tiles * ceil_div(batch.dim, tile), threads, shared_bytes,
                 lane, batch);
}

}  // namespace

size_t expert_wide_scratch_bytes(int count, int dim, int inner) {
    return size_t(ceil_div(count, tile)) * tile * row_bytes(dim, inner) + 8 * 256;
}

void launch_wide(const RoutedExpert* ops, int count, Lane lane) {
    for (int i = 0; i < count;) {
        Batch batch{};
        size_t room = 0;
        int group = 32;
        for (; i < count && batch.items < items_max; ++i) {
            const RoutedExpert& op = ops[i];
            const ExpertWeights& e = op.expert;
            if (op.count < 2) continue;
            int tiles = ceil_div(op.count, tile);
            if (batch.items == 0) {
                batch.x = op.x;
                batch.dim = e.w1.cols;
                batch.inner = e.w1.rows;
                batch.limit = op.limit;
                group = op.group;
                room = (lane.scratch.bytes - 8 * 256) / row_bytes(batch.dim, batch.inner) / tile;
            } else if (batch.tiles + tiles > int(room) || op.x.codes != batch.x.codes) {
                break;
            }
            batch.at[batch.items++] = {e.w1.codes, e.w1.scales, e.w2.codes, e.w2.scales,
                                       e.w3.codes, e.w3.scales, op.rows,    op.slots,
                                       op.weights, op.out,      op.count,   batch.tiles};
            batch.tiles += tiles;
        }
        if (batch.items) launch_batch(batch, group, lane);
    }
}

}  // namespace sluice::cuda
