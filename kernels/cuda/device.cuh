// What the CUDA sources share: launches, warp sums, matrix instructions, code conversions.
//
// The order of additions is a constant of a kernel: it depends on shapes of weights, never on the
// number of rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/graphs.cuh"

namespace sluice::cuda {

constexpr int warp = 32;
constexpr size_t alignment = 256;  // of allocations in the arena

// Scratch of the operations, taken once by reserve() and counted in the arena: no kernel allocates.
// `tickets` are counters of finished blocks, zero between launches.
constexpr int tickets_max = 1 << 14;
struct KernelScratch {
    std::byte* memory = nullptr;
    size_t bytes = 0;
    unsigned* tickets = nullptr;
};

// The compute stream and what a launch on it needs. Where the device can (compute 9.0 and later), a
// kernel started through launch_kernel() may begin while the kernel before it drains (programmatic
// dependent launch). Before start_after_previous() it may only read what is never written after
// loading, that is, weights. `after_kernel` is false while the last thing in the stream is not a
// kernel; then the next kernel starts the plain way. While `graphs` records, kernels are kept there
// instead.
struct Lane {
    cudaStream_t stream = nullptr;
    bool can_overlap = false;
    bool* after_kernel = nullptr;
    Graphs* graphs = nullptr;
    uint64_t* launches = nullptr;  // counts launches
    KernelScratch scratch{};
};

// Tickets of groups of 128 that several blocks of threads quantise together; null for groups of 32.
inline unsigned* tickets_of(int group, const Lane& lane) {
    return group == 128 ? lane.scratch.tickets : nullptr;
}

// Every kernel started through launch_kernel() calls this in all threads, before it reads or writes
// what another kernel writes or reads.
__device__ inline void start_after_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Sends what was recorded, before anything else enters the stream. The runtime keeps an error as it
// keeps that of a launch.
inline void flush_graph(const Lane& lane) {
    if (!lane.graphs || lane.graphs->empty()) return;
    lane.graphs->flush(lane.stream, lane.can_overlap);
    if (lane.after_kernel) *lane.after_kernel = false;
    if (lane.launches) ++*lane.launches;
}

// Lets a kernel use this much shared memory from now on. Never lowered: a graph may still hold a
// launch that needs more than the last one. One thread.
void allow_shared(const void* kernel, size_t bytes);

template <class... Parameters>
void launch_in(const Lane& lane, bool overlaps, void (*kernel)(Parameters...), dim3 grid,
               unsigned threads, size_t shared, const Parameters&... arguments) {
    allow_shared(reinterpret_cast<const void*>(kernel), shared);
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = lane.stream;
    config.attrs = &overlap;
    config.numAttrs = overlaps && lane.can_overlap && *lane.after_kernel ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, arguments...);
    if (lane.launches) ++*lane.launches;
}

template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared,
                   const Lane& lane, const Arguments&... arguments) {
    if (lane.graphs && lane.graphs->recording()) {
        allow_shared(reinterpret_cast<const void*>(kernel), shared);
        return lane.graphs->add(kernel, grid, threads, shared,
                                static_cast<Parameters>(arguments)...);
    }
    launch_in(lane, true, kernel, grid, threads, shared, static_cast<Parameters>(arguments)...);
    if (lane.after_kernel) *lane.after_kernel = true;
}

// The same for a kernel that does not call start_after_previous(): it starts when the one before is
// done.
template <class... Parameters, class... Arguments>
void launch_plain(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared,
                  const Lane& lane, const Arguments&... arguments) {
    flush_graph(lane);
    launch_in(lane, false, kernel, grid, threads, shared, static_cast<Parameters>(arguments)...);
    if (lane.after_kernel) *lane.after_kernel = true;
}

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
    return (a + b - 1) / b;
}

__device__ inline float warp_sum(float x) {
#pragma unroll
    for (int off = 16; off > 0; off >>= 1) x = x + __shfl_xor_sync(0xffffffffu, x, off);
    return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
    for (int off = 16; off > 0; off >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, off));
    return x;
}

// Maximum and "any" over `width` neighbouring lanes.
template <int width>
__device__ inline float group_max(float x) {
#pragma unroll
    for (int off = width / 2; off > 0; off >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, off));
    return x;
}
template <int width>
__device__ inline bool group_any(bool x) {
    unsigned votes = __ballot_sync(0xffffffffu, x);
    unsigned lane = threadIdx.x % warp;
    unsigned mask = width == 32 ? 0xffffffffu : ((1u << width) - 1) << (lane / width * width);
    return (votes & mask) != 0;
}

// ActQuant of the 32 values of a warp: the code of this lane's value, and the scale byte of all.
__device__ inline void quantise_lane(float v, uint8_t* code, uint8_t* scale) {
    bool bad = group_any<32>(!is_finite(v));
    float a = fmaxf(warp_max(fabsf(v)), 1e-4f);
    uint8_t byte = bad ? 255 : e8m0_ceil(a * (1.0f / 448.0f));
    float inverse = bad ? 0.0f : exp2i(127 - int(byte));
    float q = fminf(fmaxf(v * inverse, -448.0f), 448.0f);
    *code = bad ? 0 : float_to_e4m3(q);
    *scale = byte;
}
// The same, stored: `at` is the place of this lane's code.
__device__ inline void store_lane(float v, const QuantRows& out, int64_t at) {
    uint8_t code, scale;
    quantise_lane(v, &code, &scale);
    out.codes[at] = code;
    if (threadIdx.x % warp == 0) out.scales[at / 32] = scale;
}

// Four neighbouring values per lane, a quarter as many lanes as a group has values: the same codes
// and scales.
template <int group = 32>
__device__ inline void store_four(const float (&v)[4], const QuantRows& out, int64_t at) {
    bool finite = true;
    float a = 1e-4f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        finite = finite && is_finite(v[i]);
        a = fmaxf(a, fabsf(v[i]));
    }
    bool bad = group_any<group / 4>(!finite);
    a = group_max<group / 4>(a);
    uint8_t byte = bad ? 255 : e8m0_ceil(a * (1.0f / 448.0f));
    float inverse = bad ? 0.0f : exp2i(127 - int(byte));
    uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float q = fminf(fmaxf(v[i] * inverse, -448.0f), 448.0f);
        codes |= (bad ? 0u : uint32_t(float_to_e4m3(q))) << (8 * i);
    }
    *reinterpret_cast<uint32_t*>(out.codes + at) = codes;
    if (threadIdx.x % 8 == 0) out.scales[at / 32] = byte;
}

// Groups of 128 whose quarters come from four blocks of threads: each calls this in one whole warp
// once that warp has stored its quarter, with a ticket of the group. True in the last of the four,
// whose warp then sees all quarters (it reads them with __ldcg) and finishes the group.
__device__ inline bool last_of_four(unsigned* ticket) {
    unsigned before = 0;
    __threadfence();
    __syncwarp();
    if (threadIdx.x % warp == 0) before = atomicAdd(ticket, 1u);
    if (__shfl_sync(0xffffffffu, before, 0) != 3) return false;
    if (threadIdx.x % warp == 0) *ticket = 0;
    __threadfence();
    return true;
}

// The four neighbouring bf16 numbers of this lane, as another block of threads has stored them.
__device__ inline void stored_four(const bf16* from, float (&v)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v[i] = to_float(bf16{__ldcg(reinterpret_cast<const unsigned short*>(from) + i)});
}

// What a warp does with the value of its lane in a group of 32 from `at` on: stores the codes and
// the scale at once, or, with a ticket, keeps the value in `kept` (at the same place) until the
// group of 128 is whole.
__device__ inline void store_part(float v, const QuantRows& out, int64_t at, bf16* kept,
                                  unsigned* ticket) {
    if (!ticket) return store_lane(v, out, at);
    kept[at] = to_bf16(v);
    if (!last_of_four(ticket)) return;
    int lane = threadIdx.x % warp;
    int64_t first = (at - lane) / 128 * 128 + lane * 4;
    float all[4];
    stored_four(kept + first, all);
    store_four<128>(all, out, first);
}

// SwiGLU with its clamps, rounded to bf16; NaN is kept. `weight` may be null.
__device__ inline float swiglu_value(float g, float u, const float* weight, float limit) {
    g = g > limit ? limit : g;
    u = u > limit ? limit : (u < -limit ? -limit : u);
    float a = silu_f32(g) * u;
    return round_bf16(weight ? *weight * a : a);
}

// Sum over the block of threads, the same value in every thread. `shared` holds blockDim.x / 32
// floats.
__device__ inline float block_sum(float x, float* shared) {
    x = warp_sum(x);
    int lane = threadIdx.x % warp, w = threadIdx.x / warp, warps = blockDim.x / warp;
    __syncthreads();
    if (lane == 0) shared[w] = x;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < warps; ++i) total = total + shared[i];
    return total;
}

// Two E4M3 codes (the low 16 bits of `codes`) to two halves, exact. NaN codes do not occur: dense
// weights are checked when loaded, and ActQuant writes none.
__device__ inline uint32_t e4m3x2_to_half2(uint32_t codes) {
#if __CUDA_ARCH__ >= 890
    uint32_t out;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"(uint16_t(codes)));
    return out;
#else
    // code << 7 placed in a half is value * 2^-8; multiplied by 256 it is exact.
    uint32_t spread = __byte_perm(codes, 0, 0x1404);  // byte 0 -> bits 8..15, byte 1 -> bits 24..31
    uint32_t bits = (spread & 0x80008000u) | ((spread & 0x7f007f00u) >> 1);
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(bits), "r"(0x5c005c00u));
    return out;
#endif
}

// c += A[16 x 16] B[16 x 8], halves, fp32 accumulators. Turing only has the k = 8 form.
__device__ inline void mma_f16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                               uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a2), "r"(a3), "r"(b1));
#endif
}

// The same with bfloat16 operands: sm_80 and later. Turing emulates it in fp32 through shuffles:
// the k values of a fragment are gathered from the four threads that hold them. Slow, and exact in
// the same sense.
__device__ inline void mma_bf16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    int lane = threadIdx.x % warp, group = lane / 4, pair = lane % 4;
#pragma unroll
    for (int t = 0; t < 4; ++t) {  // source thread of the quad: k = 2t, 2t+1 and 2t+8, 2t+9
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t low = __shfl_sync(0xffffffffu, half ? a2 : a0, group * 4 + t);
            uint32_t high = __shfl_sync(0xffffffffu, half ? a3 : a1, group * 4 + t);
            uint32_t left = __shfl_sync(0xffffffffu, half ? b1 : b0, (2 * pair) * 4 + t);
            uint32_t right = __shfl_sync(0xffffffffu, half ? b1 : b0, (2 * pair + 1) * 4 + t);
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                float al = __uint_as_float(k ? low & 0xffff0000u : low << 16);
                float ah = __uint_as_float(k ? high & 0xffff0000u : high << 16);
                float bl = __uint_as_float(k ? left & 0xffff0000u : left << 16);
                float br = __uint_as_float(k ? right & 0xffff0000u : right << 16);
                c[0] = __fmaf_rn(al, bl, c[0]);
                c[1] = __fmaf_rn(al, br, c[1]);
                c[2] = __fmaf_rn(ah, bl, c[2]);
                c[3] = __fmaf_rn(ah, br, c[3]);
            }
        }
    }
#endif
}

// c += A[16 x 32] B[32 x 8], signed bytes, int32 accumulators: exact. Turing has m8n8k16.
__device__ inline void mma_s8(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                              uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1])
                 : "r"(a0), "r"(b0));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1])
                 : "r"(a2), "r"(b1));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[2]), "+r"(c[3])
                 : "r"(a1), "r"(b0));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[2]), "+r"(c[3])
                 : "r"(a3), "r"(b1));
#endif
}

// One launch function per operation, in stream order. For a composed operation it returns false
// where this shape has no launch of its own, and then nothing was done.
#define SLUICE_DECLARE(Op) void launch(const Op& op, Lane lane);
SLUICE_PLAIN_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE
#define SLUICE_DECLARE(Op) bool launch(const Op& op, Lane lane);
SLUICE_COMPOSED_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

// For one token row. False where the kernels do not take the shape, and then nothing was done.
bool launch_one(const LinearFp8& op, Lane lane);
bool launch_one(const LinearBf16& op, Lane lane);
bool launch_one(const GroupedOutput& op, Lane lane);
bool launch_one(const LinearFp8Pair& op, Lane lane);
bool launch_one(const GroupedOutputQuant& op, Lane lane);
bool launch_one(const GateUp& op, Lane lane);

// Number of CUDA devices; 0 without a driver.
Result<int> device_count();
// An error (device) that says what is missing: a driver, any device, or the one with this number.
Result<void> require_device(int device);

// Any kernel of this build: asks the runtime whether it has code for the device.
const void* any_kernel();

// No block of threads uses more shared memory than this: what consumer GPUs since Ampere offer
// (Turing: 64 KiB, asked at start).
constexpr size_t shared_max = 99 * 1024;

// Bytes of KernelScratch that operations need at most.
size_t hyper_scratch_bytes(int n, int dim);
size_t index_scratch_bytes(int n, int rows);
size_t route_scratch_bytes(int n, int experts);
size_t expert_scratch_bytes(int count, int dim, int inner);
// Rows to reserve expert_scratch_bytes() for: all experts of a chunk in few launches, with a tile
// of 64 begun for many of them.
int expert_rows(const Shapes& largest);
size_t attention_scratch_bytes(int heads, int window, int k, int dim);

// The same for one call. An operation that is not listed here needs none.
template <class Op>
size_t scratch_bytes(const Op&) {
    return 0;
}
inline size_t scratch_bytes(const HyperMix& op) {
    return hyper_scratch_bytes(op.n, op.dim);
}
inline size_t scratch_bytes(const HyperStep& op) {
    return scratch_bytes(op.mix);
}
inline size_t scratch_bytes(const SparseAttention& op) {
    return attention_scratch_bytes(op.heads, op.window, op.k, op.dim);
}
inline size_t scratch_bytes(const RotatedAttention& op) {
    return scratch_bytes(op.attention);
}
inline size_t scratch_bytes(const IndexTopk& op) {
    return index_scratch_bytes(op.n, op.rows);
}
inline size_t scratch_bytes(const Route& op) {
    return route_scratch_bytes(op.n, op.gate.rows);
}
inline size_t scratch_bytes(const RoutedExpert& op) {
    return expert_scratch_bytes(op.count, op.expert.w1.cols, op.expert.w1.rows);
}
inline size_t scratch_bytes(const RoutedExpertBatch& op) {
    size_t most = 0;
    for (int32_t i = 0; i < op.count; ++i) {
        const size_t bytes = scratch_bytes(op.items[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t attention_shared_bytes(int window, int k, int dim);

}  // namespace sluice::cuda
