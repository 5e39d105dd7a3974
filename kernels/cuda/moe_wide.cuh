// What the kernels for many activation rows in an expert share: the product of a tile of 64 weight
// rows x 64 token rows, exact in halves on the matrix units.
//
// Why it is exact: E4M3 and E2M1 are halves without rounding. A sum of products that are multiples
// of one unit is exact while the sum of their magnitudes stays below 2^24 units, because fp32
// accumulators hold that, wherever the alignment to the largest product truncates. That is so for
// nearly every block of 32 activations. The other blocks are marked (by the sign of their scale)
// and are computed in two parts: values of at least 2^-3, then the smaller ones. The two sums,
// added, are the contract's integer rounded once to fp32.
//
// A block of threads owns 64 weight rows x 64 token rows. Warp w takes the blocks b with b mod 8 =
// w, which is the contract's lane. The lanes are added in the tree 4, 2, 1, where each warp keeps
// half of its tokens at every step.
#pragma once

#include "kernels/cuda/pipeline.cuh"
#include "kernels/cuda/wide.cuh"

namespace sluice::cuda {
namespace {

constexpr int lanes = 8, threads = lanes * warp, tile = 64;
constexpr int scale_stride = tile + 4;   // of the weights' scales, against bank conflicts
constexpr float weight_unit = 16384.0f;  // weights in the matrix unit are 2^-14 of their value

// Whether a block could lose a bit in one pass, from the sum of its magnitudes in units of 2^-9 and
// the smallest exponent of a nonzero value: weights are multiples of 1/2 up to 6.
__device__ inline bool is_wide(int sum, int exponent) {
    return exponent < 4 && sum * 6 >= 1 << (22 + exponent);
}
__device__ inline int exponent_of(uint8_t code) {  // the step is 2^(exponent - 10)
    return (code & 0x7f) == 0 ? 15 : max(code >> 3 & 15, 1);
}

// 0x7f in every byte whose value is at least 2^-3.
__device__ inline uint32_t large_mask(uint32_t codes) {
    uint32_t large = (codes | codes << 1) & 0x40404040u;
    return (large << 1) - (large >> 6);
}

// 64 weight rows: 32 from each matrix. Token rows are indexed where there is a list.
struct Source {
    const uint8_t *codes[2], *scales[2];
    const uint8_t* x;
    const int32_t* rows;  // null: in sequence
    const float* x_scale;
    int blocks, token_tiles;  // tiles of 8 that hold tokens
};

// Shared memory of one stage, eight blocks of K. What a warp reads at once is in different banks.
constexpr int w_bytes = tile * lanes * 16, x_bytes = tile * lanes * 32;
constexpr int w_scale_bytes = lanes * scale_stride * 4, x_scale_bytes = lanes * tile * 4;
constexpr int stage_bytes = w_bytes + x_bytes + w_scale_bytes + x_scale_bytes;
constexpr int exchange_bytes = lanes * 4 * 16 * warp * 4;
constexpr int shared_bytes = exchange_bytes > 2 * stage_bytes ? exchange_bytes : 2 * stage_bytes;
static_assert(shared_bytes <= 64 * 1024);  // the limit of Turing

struct Stage {
    std::byte* memory;
    __device__ std::byte* w(int row, int block) const {
        return memory + row * lanes * 16 + (block ^ (row & 7)) * 16;
    }
    __device__ std::byte* x(int token, int block) const {
        return memory + w_bytes + token * lanes * 32 + (block ^ (token & 7)) * 32;
    }
    __device__ float* w_scale(int block) const {
        return reinterpret_cast<float*>(memory + w_bytes + x_bytes) + block * scale_stride;
    }
    __device__ float* x_scale(int block) const {
        return reinterpret_cast<float*>(memory + w_bytes + x_bytes + w_scale_bytes) + block * tile;
    }
};

// What a thread copies: weights of one row of either matrix, four token rows, two scales.
struct Copier {
    const Source& from;
    int row, token_row[4];

    __device__ explicit Copier(const Source& source) : from(source), row(threadIdx.x / lanes) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int token = threadIdx.x / 16 + i * 16;
            token_row[i] = from.rows ? from.rows[token] : token;
        }
    }
    __device__ void load(const Stage& to, int first) const {
        int piece = threadIdx.x % lanes, block = min(first + piece, from.blocks - 1);
#pragma unroll
        for (int i = 0; i < 2; ++i)
            copy16(to.w(row + i * 32, piece),
                   from.codes[i] + (int64_t(row) * from.blocks + block) * 16);
        piece = threadIdx.x % 16;
        block = min(first + piece / 2, from.blocks - 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int token = threadIdx.x / 16 + i * 16;
            if (token < from.token_tiles * 8)
                copy16(
                    to.x(token, piece / 2) + piece % 2 * 16,
                    from.x + (int64_t(token_row[i]) * from.blocks + block) * 32 + piece % 2 * 16);
        }
        if (threadIdx.x < x_scale_bytes / 16)
            copy16(reinterpret_cast<std::byte*>(to.x_scale(0)) + threadIdx.x * 16,
                   from.x_scale + int64_t(first) * tile + threadIdx.x * 4);
    }
    struct Bytes {
        uint8_t at[2];
    };
    __device__ Bytes load_scales(int first) const {
        int r = threadIdx.x / 4, block = first + threadIdx.x % 4 * 2;
        const uint8_t* scales =
            (r < 32 ? from.scales[0] : from.scales[1]) + int64_t(r % 32) * from.blocks;
        return {{__ldg(scales + min(block, from.blocks - 1)),
                 __ldg(scales + min(block + 1, from.blocks - 1))}};
    }
    // Returns whether a scale is so small or so large that products could be rounded on the way.
    template <bool stepwise>
    __device__ bool store_scales(const Stage& to, Bytes bytes) const {
        bool odd = false;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float s = e8m0_to_float(bytes.at[i]);
            to.w_scale(threadIdx.x % 4 * 2 + i)[threadIdx.x / 4] = stepwise ? s : s * weight_unit;
            odd |= bytes.at[i] < 33 || bytes.at[i] > 230;
        }
        return odd;
    }
};

struct Halves {
    uint32_t v[4];  // pairs k, k + 4
};
// Eight E2M1 codes: they become the two low exponent bits and the top mantissa bit of halves.
__device__ inline Halves weight_halves(uint32_t w) {
    return {{(w << 12 & 0x80008000u) | (w << 9 & 0x0e000e00u),
             (w << 8 & 0x80008000u) | (w << 5 & 0x0e000e00u),
             (w << 4 & 0x80008000u) | (w << 1 & 0x0e000e00u),
             (w & 0x80008000u) | (w >> 3 & 0x0e000e00u)}};
}
__device__ inline Halves activation_halves(uint32_t low, uint32_t high) {
    return {{e4m3x2_to_half2(__byte_perm(low, high, 0x7740)),
             e4m3x2_to_half2(__byte_perm(low, high, 0x7751)),
             e4m3x2_to_half2(__byte_perm(low, high, 0x7762)),
             e4m3x2_to_half2(__byte_perm(low, high, 0x7773))}};
}
// Four tiles of 16 weight rows x 8 tokens.
struct Products {
    float t[4][4];
};
// The result of each instruction is needed long after it was started.
template <int count>
__device__ inline void multiply(Products (&to)[count], const Halves (&a)[8],
                                const Halves (&x)[count]) {
#pragma unroll
    for (int i = 0; i < count * 16; ++i) to[i / 16].t[i / 4 % 4][i % 4] = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int p = 0; p < count; ++p)
#pragma unroll
            for (int m = 0; m < 4; ++m)
                mma_f16(to[p].t[m], a[2 * m].v[2 * half], a[2 * m + 1].v[2 * half],
                        a[2 * m].v[2 * half + 1], a[2 * m + 1].v[2 * half + 1], x[p].v[2 * half],
                        x[p].v[2 * half + 1]);
}

// The products of a marked block. Both parts keep the signs: masked values become a zero.
__device__ inline void multiply_in_parts(Products& to, const Halves (&a)[8], uint2 raw) {
    uint32_t low = large_mask(raw.x), high = large_mask(raw.y);
    Halves x[2] = {activation_halves(raw.x & (low | 0x80808080u), raw.y & (high | 0x80808080u)),
                   activation_halves(raw.x & ~low, raw.y & ~high)};
    Products parts[2];
    multiply(parts, a, x);
#pragma unroll
    for (int i = 0; i < 16; ++i)
        to.t[i / 4][i % 4] = parts[0].t[i / 4][i % 4] + parts[1].t[i / 4][i % 4];
}

// `stepwise`: term by term as in the contract. Otherwise fused, with the same bits as long as no
// product leaves the normal numbers.
template <bool stepwise>
__device__ inline void add_terms(float (&acc)[16], int m, const float (&t)[4],
                                 const float (&s_w)[8], float2 s_x) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float& sum = acc[m * 4 + i];
        float x = i % 2 ? s_x.y : s_x.x, w = s_w[m * 2 + i / 2];
        sum = stepwise ? sum + (t[i] * weight_unit * x) * w : __fmaf_rn(t[i] * x, w, sum);
    }
}

// This warp's block of a stage. acc[n][m * 4 + i]: tokens n * 8 .., rows m * 16 ..
template <bool stepwise>
__device__ inline void block_of_stage(const Stage& stage, int token_tiles, float (&acc)[8][16]) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, quad = lane % 4, g = lane / 4;
    const float *s_x = stage.x_scale(w), *s_weights = stage.w_scale(w);
    uint32_t marked[2] = {__ballot_sync(0xffffffffu, __float_as_int(s_x[lane]) < 0),
                          __ballot_sync(0xffffffffu, __float_as_int(s_x[lane + warp]) < 0)};
    Halves a[8];
    float s_w[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        a[r] = weight_halves(*reinterpret_cast<const uint32_t*>(stage.w(r * 8 + g, w) + quad * 4));
        s_w[r] = s_weights[r * 8 + g];
    }
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {  // two tiles of 8 tokens: enough products in flight
        if (pair * 2 >= token_tiles) continue;
        uint2 raw[2];
        float2 scale[2];
        Halves x[2];
        Products products[2];
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            int n = pair * 2 + p;
            raw[p] = *reinterpret_cast<const uint2*>(stage.x(n * 8 + g, w) + quad * 8);
            scale[p] = *reinterpret_cast<const float2*>(s_x + n * 8 + 2 * quad);
        }
#pragma unroll
        for (int p = 0; p < 2; ++p) x[p] = activation_halves(raw[p].x, raw[p].y);
        multiply(products, a, x);
        uint32_t marks = marked[pair / 2] >> (pair % 2 * 16) & 0xffff;
        if (marks) {
#pragma unroll
            for (int p = 0; p < 2; ++p)
                if (marks >> (8 * p) & 0xff) multiply_in_parts(products[p], a, raw[p]);
        }
#pragma unroll
        for (int p = 0; p < 2; ++p)
#pragma unroll
            for (int m = 0; m < 4; ++m)
                add_terms<stepwise>(acc[pair * 2 + p], m, products[p].t[m], s_w,
                                    make_float2(fabsf(scale[p].x), fabsf(scale[p].y)));
    }
}

// Returns whether it has to be repeated stepwise.
template <bool stepwise>
__device__ inline bool lane_sums(const Source& from, std::byte* memory, float (&acc)[8][16]) {
#pragma unroll
    for (int i = 0; i < 128; ++i) acc[i / 16][i % 16] = 0.0f;
    Copier copier(from);
    Stage stage[2] = {{memory}, {memory + stage_bytes}};
    copier.load(stage[0], 0);
    bool odd = copier.template store_scales<stepwise>(stage[0], copier.load_scales(0));
    copies_end();
    for (int first = 0, at = 0; first < from.blocks; first += lanes, at ^= 1) {
        copies_wait<0>();
        __syncthreads();  // this stage is here; nobody reads the other any more
        bool more = first + lanes < from.blocks;
        Stage now{memory + at * stage_bytes}, next{memory + (at ^ 1) * stage_bytes};
        Copier::Bytes bytes{};
        if (more) {
            copier.load(next, first + lanes);
            bytes = copier.load_scales(first + lanes);
        }
        copies_end();
        if (first + int(threadIdx.x) / warp < from.blocks)
            block_of_stage<stepwise>(now, from.token_tiles, acc);
        if (more) odd |= copier.template store_scales<stepwise>(next, bytes);
    }
    return __syncthreads_or(odd);
}

// One step of the tree: partners `bit` apart add up, each for half of the tokens.
template <int n>
__device__ inline void meet(const float (&from)[n][16], float (&to)[n / 2][16], float* exchange,
                            int bit) {
    int lane = threadIdx.x % warp, w = threadIdx.x / warp;
    bool upper = w & bit;
    float* mine = exchange + w * 4 * 16 * warp + lane;
    const float* other = exchange + (w ^ bit) * 4 * 16 * warp + lane;
#pragma unroll
    for (int i = 0; i < n * 8; ++i)
        mine[i * warp] = upper ? from[i / 16][i % 16] : from[n / 2 + i / 16][i % 16];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < n * 8; ++i)
        to[i / 16][i % 16] =
            (upper ? from[n / 2 + i / 16][i % 16] : from[i / 16][i % 16]) + other[i * warp];
    __syncthreads();
}

// Afterwards y of warp w holds tokens w * 8 .. + 7 of the tile.
__device__ inline void tile_product(const Source& from, float (&y)[16]) {
    extern __shared__ __align__(128) std::byte memory[];
    float acc[8][16], half[4][16], quarter[2][16], last[1][16];
    if (lane_sums<false>(from, memory, acc)) lane_sums<true>(from, memory, acc);
    meet<8>(acc, half, reinterpret_cast<float*>(memory), 4);
    meet<4>(half, quarter, reinterpret_cast<float*>(memory), 2);
    meet<2>(quarter, last, reinterpret_cast<float*>(memory), 1);
#pragma unroll
    for (int i = 0; i < 16; ++i) y[i] = last[0][i];
}

}  // namespace
}  // namespace sluice::cuda
