// Source of device.cuh. IndexTopk: scores on tensor cores, then for each query a radix selection
// over 16-bit keys (scores are bf16 numbers); among equals, lower rows are first.
#include "kernels/cuda/device.cuh"

namespace sluice::cuda {
namespace {

constexpr int block = 256, warps = block / warp;

constexpr unsigned key_of_minus_infinity = 0x007f, key_of_infinity = 0xff80;

// Keys have the order of the floats; a row that does not count has key 0. NaN ranks as -infinity.
__device__ inline uint16_t sort_key(float score) {
    uint16_t bits = to_bf16(score + 0.0f).bits;  // -0 and 0 are the same score
    if ((bits & 0x7fff) > 0x7f80) bits = 0xff80;
    return bits & 0x8000 ? uint16_t(~bits) : uint16_t(bits | 0x8000);
}

// keys[query][row]: one warp per tile of 8 rows, for all heads.
__global__ void index_scores_kernel(IndexTopk op, int query0, uint16_t* keys, int stride) {
    start_after_previous();
    int lane = threadIdx.x % warp, quad = lane % 4, g = lane / 4;
    int query = query0 + blockIdx.y;
    int visible = (op.position + query + 1) / op.ratio;
    visible = visible < op.rows ? visible : op.rows;
    int tile = (blockIdx.x * warps + threadIdx.x / warp) * 8;
    if (tile >= visible) return;
    const bf16* key = tile + g < visible ? op.keys + int64_t(tile + g) * op.dim : nullptr;
    const bf16* q = op.q + int64_t(query) * op.heads * op.dim;
    const bf16* w = op.w + int64_t(query) * op.heads;
    float sum[2] = {0.0f, 0.0f};
    for (int h = 0; h < op.heads; h += 16) {
        const bf16* low = h + g < op.heads ? q + int64_t(h + g) * op.dim : nullptr;
        const bf16* high = h + g + 8 < op.heads ? q + int64_t(h + g + 8) * op.dim : nullptr;
        float c[4] = {0, 0, 0, 0};
        auto load = [&](const bf16* v, int at) {
            return v && at < op.dim ? *reinterpret_cast<const uint4*>(v + at)
                                    : make_uint4(0, 0, 0, 0);
        };
        for (int d = 0; d < op.dim; d += 32) {
            uint4 a = load(low, d + quad * 8), b = load(high, d + quad * 8),
                  k = load(key, d + quad * 8);
            mma_bf16(c, a.x, b.x, a.y, b.y, k.x, k.y);
            mma_bf16(c, a.z, b.z, a.w, b.w, k.z, k.w);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int head = h + g + (i / 2) * 8;
            if (head >= op.heads) continue;
            float s = round_bf16(c[i]);
            s = s > 0.0f || s != s ? s : 0.0f;
            sum[i % 2] = sum[i % 2] + round_bf16(s * to_float(w[head]));
        }
    }
#pragma unroll
    for (int off = 4; off < warp; off <<= 1) {
        sum[0] = sum[0] + __shfl_xor_sync(0xffffffffu, sum[0], off);
        sum[1] = sum[1] + __shfl_xor_sync(0xffffffffu, sum[1], off);
    }
    if (g == 0)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = tile + 2 * quad + i;
            if (row >= visible) continue;
            uint16_t value = sort_key(sum[i]);
            if (op.mode == Candidates::restrict &&
                !op.candidates[int64_t(query) * op.blocks_max + row / op.block])
                value = 0;
            if (op.scores)
                op.scores[int64_t(query) * op.rows + row] =
                    value > key_of_minus_infinity ? round_bf16(sum[i]) : -INFINITY;
            keys[int64_t(blockIdx.y) * stride + row] = value;
        }
}

// The `want` largest of count keys (at most all that are > 0): the threshold, and how many of those
// equal to it are taken.
struct Cut {
    unsigned threshold;  // keys above it are taken
    int equal;           // of those equal to it this many are, lowest index first
};

template <class Key>
__device__ Cut find_cut(const Key& key, int count, int want, unsigned* histogram) {
    __shared__ unsigned high, above;
    unsigned prefix = 0;
    int left = want;
    for (int pass = 0; pass < 2; ++pass) {
        for (int i = threadIdx.x; i < 256; i += block) histogram[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += block) {
            unsigned k = key(i);
            if (k == 0) continue;
            if (pass == 0)
                atomicAdd(histogram + (k >> 8), 1u);
            else if (k >> 8 == prefix)
                atomicAdd(histogram + (k & 255), 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned sum = 0;
            int bin = 255;
            for (; bin > 0 && sum + histogram[bin] < unsigned(left); --bin) sum += histogram[bin];
            high = bin;
            above = sum;
        }
        __syncthreads();
        left -= int(above);
        prefix = pass == 0 ? high : prefix << 8 | high;
        __syncthreads();
    }
    return {prefix, left};
}

// Calls take(index, place) for the chosen ones in ascending order and returns how many there are.
// All threads of the block call it.
template <class Key, class Take>
__device__ int select(const Key& key, int count, const Cut& cut, const Take& take) {
    __shared__ int offset[2][warps];
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, taken = 0, equal_seen = 0;
    for (int base = 0; base < count; base += block) {
        int i = base + threadIdx.x;
        unsigned k = i < count ? key(i) : 0;
        bool equal = k != 0 && k == cut.threshold;
        unsigned equals = __ballot_sync(0xffffffffu, equal);
        if (lane == 0) offset[0][w] = __popc(equals);
        __syncthreads();
        int before = equal_seen, all = 0;
        for (int j = 0; j < warps; ++j) {
            if (j < w) before += offset[0][j];
            all += offset[0][j];
        }
        before += __popc(equals & ((1u << lane) - 1));
        bool in = k > cut.threshold || (equal && before < cut.equal);
        unsigned ins = __ballot_sync(0xffffffffu, in);
        if (lane == 0) offset[1][w] = __popc(ins);
        __syncthreads();
        int place = taken, total = 0;
        for (int j = 0; j < warps; ++j) {
            if (j < w) place += offset[1][j];
            total += offset[1][j];
        }
        if (in) take(i, place + __popc(ins & ((1u << lane) - 1)));
        taken += total;
        equal_seen += all;
        __syncthreads();
    }
    return taken;
}

__global__ void __launch_bounds__(block)
    index_select_kernel(IndexTopk op, int query0, const uint16_t* keys, int stride) {
    start_after_previous();
    __shared__ unsigned histogram[256];
    int query = query0 + blockIdx.x;
    int visible = (op.position + query + 1) / op.ratio;
    visible = visible < op.rows ? visible : op.rows;
    const uint16_t* mine = keys + int64_t(blockIdx.x) * stride;
    for (int i = visible + threadIdx.x; op.scores && i < op.rows; i += block)
        op.scores[int64_t(query) * op.rows + i] = -INFINITY;
    int32_t* out = op.topk + int64_t(query) * op.k;
    int taken;
    if (visible <= op.k) {
        for (int i = threadIdx.x; i < visible; i += block) out[i] = i;
        taken = visible;
    } else {
        auto key = [&](int i) { return unsigned(mine[i]); };
        Cut cut = find_cut(key, visible, op.k, histogram);
        taken = select(key, visible, cut, [&](int i, int place) { out[place] = i; });
    }
    for (int i = taken + threadIdx.x; i < op.k; i += block) out[i] = -1;
    if (op.mode != Candidates::publish) return;
    uint8_t* marks = op.candidates + int64_t(query) * op.blocks_max;
    int blocks = ceil_div(visible, op.block);
    auto block_key = [&](int b) -> unsigned {
        if (b == blocks - 1) return key_of_infinity;  // the newest block is always kept
        unsigned most = 0;
        for (int i = b * op.block; i < min(visible, (b + 1) * op.block); ++i)
            most = max(most, unsigned(mine[i]));
        return most;
    };
    bool scored = visible > op.k || blocks > op.keep;
    for (int i = threadIdx.x; i < op.blocks_max; i += block)
        marks[i] =
            i < blocks && blocks <= op.keep && (!scored || block_key(i) > key_of_minus_infinity);
    if (blocks <= op.keep) return;
    __syncthreads();
    Cut cut = find_cut(block_key, blocks, op.keep, histogram);
    select(block_key, blocks, cut, [&](int b, int) {
        if (block_key(b) > key_of_minus_infinity) marks[b] = 1;
    });
}

constexpr int queries_least = 64;  // queries at once; more where the scratch has room

}  // namespace

size_t index_scratch_bytes(int n, int rows) {
    return size_t(n < queries_least ? n : queries_least) * ceil_div(rows, 8) * 8 * sizeof(uint16_t);
}

void launch(const IndexTopk& op, Lane lane) {
    int stride = ceil_div(op.rows, 8) * 8;
    auto* keys = reinterpret_cast<uint16_t*>(lane.scratch.memory);
    size_t room = stride ? lane.scratch.bytes / (stride * sizeof(uint16_t)) : op.n;
    int at_once = room < size_t(op.n) ? int(room) : op.n;
    for (int q = 0; q < op.n; q += at_once) {
        int count = op.n - q < at_once ? op.n - q : at_once;
        int visible = (op.position + q + count) / op.ratio;
        bool trivial = !op.scores && visible <= op.k &&
                       (op.mode != Candidates::publish || ceil_div(visible, op.block) <= op.keep);
        if (!trivial)
            launch_kernel(index_scores_kernel, dim3(ceil_div(ceil_div(op.rows, 8), warps), count),
                          block, 0, lane, op, q, keys, stride);
        launch_kernel(index_select_kernel, count, block, 0, lane, op, q, keys, stride);
    }
}

}  // namespace sluice::cuda
