// Every operation of the forward pass, as a contract: what it computes, with every rounding point.
// `n` is the number of token rows; a row's result never depends on n, on its neighbours, or on the
// number of threads.
//
// The same struct goes to three rooms: reference::op(args) plain loops, cpu through a table per
// instruction set, and the CUDA backend. Sources: reference/X.cpp, cpu/X.*, cuda/X.cu,
// tests/kernels/X_test.cpp.
//
// Order of additions, everywhere unless said otherwise ("dot of 16"): partial sums over k mod 16 in
// ascending k, each product rounded to fp32 (exact for these formats, but for the ends of the
// range), then the tree v[i] += v[i + 8], 4, 2, 1. CPU code of every instruction set repeats this
// bit by bit; the CUDA backend has its own constant order, except for routed experts, which are
// bit-equal everywhere (moe below).
//
// Tolerance against reference/ (which sums in double): nmse <= 1e-6 before the output rounding;
// bit-equal for ops with no sum. Pointers may not overlap unless said. Sources of formulas: the
// model's description, section numbers in parentheses.
#pragma once

#include "kernels/matrix.h"

namespace sluice {

// ---- quant --------------------------------------------------------------------------------------

// Groups of 32: a = max(|x|, 1e-4); s = 2^ceil(log2(a * fp32(1/448))); q = e4m3(clamp(x / s,
// +-448)).
struct ActQuant {
    QuantRows out;
    const bf16* x;  // [n][cols], cols % 32 == 0
    int32_t n, cols;
};

// The three in-place quantisers give back bf16(q * s):
//   fp8_32: as ActQuant; fp4_32: a = max(|x|, 6 * 2^-126), s = 2^ceil(log2(a * fp32(1/6))), E2M1;
//   fp4_16: groups of 16, a = max(|x|, 6 * 2^-9), s = e4m3(min(a / 6, 448)), x / s a true division,
//   E2M1.
// Rotates the last 2 * rope.half of each vector first (adjacent pairs, bf16 result) when rope.cos
// is set. A group with a value that is not finite becomes NaN.
enum class Requant { none, fp8_32, fp4_32, fp4_16 };
struct RopeRequant {
    bf16* x;  // [n][heads][dim], in place
    int32_t n, heads, dim;
    RopeTable rope;    // cos == nullptr: no rotation
    int32_t position;  // of row 0
    int32_t stride;    // position of row i: position + i * stride
    bool inverse;      // conjugate rotation
    Requant requant;
};

// ---- norm ---------------------------------------------------------------------------------------

// y = bf16(w * (x * (1 / sqrt(sum(x^2) / cols + eps)))), fp32 inside; sum: dot of 16. y may be x.
struct RmsNorm {
    bf16* y;
    const bf16* x;  // [n][cols]
    const bf16* w;  // [cols]
    int32_t n, cols;
    float eps;
};

// ---- linear -------------------------------------------------------------------------------------

// y = bf16(sum over blocks of 32). X[k] = q[k] * s_x (fp32, exact). Per output row, lane l = 0..15
// of block b:
//   t = w[32b + l] * X[32b + l] + w[32b + 16 + l] * X[32b + 16 + l];  acc[l] = acc[l] + t * s_w
// blocks ascending, then the tree of 16. w is the bare E4M3 value, s_w the tile's scale.
struct LinearFp8 {
    bf16* y;  // [n][rows]
    Fp8Matrix w;
    QuantRows x;
    int32_t n;
};

// y = W x in fp32, dot of 16, operands bf16. Exactly one of y_bf16 (rounded) and y_f32 is set.
struct LinearBf16 {
    bf16* y_bf16;  // [n][rows] or null
    float* y_f32;
    Bf16Matrix w;
    const bf16* x;  // [n][cols]
    int32_t n;
};

// Grouped output projection (3.5 step 6): group g of o is o[g * cols ..], its rows are w rows [g *
// rank, (g+1) * rank): t[i][g * rank + r] = bf16(dot(w[g * rank + r], o[i][g])), w bf16-exact from
// FP8 (value * scale), o bf16, not quantised; dot of 16 over products of w (bare) with o, scaled
// per block of 32 as in LinearFp8.
struct GroupedOutput {
    bf16* t;        // [n][groups * rank]
    Fp8Matrix w;    // rows = groups * rank, cols = per group
    const bf16* o;  // [n][groups][cols]
    int32_t n, groups;
};

// ---- hyper-connections (3.4) --------------------------------------------------------------------

// u = h of one token, H * D values. r = 1 / sqrt(sum(u^2) / (H D) + eps); m = (fn . u) * r (dot of
// 16, products fp32-rounded). pre[j] = sigmoid(m[j] * scale[0] + base[j]) + hc_eps; post[j] = 2 *
// sigmoid(m[H + j] * scale[1] + base[H + j]); C[j][k] = m[2H + jH + k] * scale[2] + base[2H + jH +
// k]; softmax over k, + hc_eps; columns / (sum + hc_eps); then (iterations - 1) x (rows / (sum +
// hc_eps), columns / (sum + hc_eps)). Sums ascending. H <= 16.
struct HyperMix {
    float* pre;          // [n][H]
    float* post;         // [n][H]
    float* comb;         // [n][H][H]
    const bf16* h;       // [n][H][D]
    F32Matrix fn;        // [(2 + H) * H][H * D]
    const float* base;   // [(2 + H) * H]
    const float* scale;  // [3]
    int32_t n, hc, dim, iterations;
    float eps, hc_eps;
};

// x = bf16(sum_j pre[j] * h[j]), j ascending from 0 (acc = pre[0] * h[0]; acc = acc + pre[j] *
// h[j]).
struct HyperCollapse {
    bf16* x;  // [n][D]
    const float* pre;
    const bf16* h;
    int32_t n, hc, dim;
};

// h[k] = bf16(post[k] * x + s), s = sum_j comb[j][k] * h_old[j] with j ascending. In place.
struct HyperExpand {
    bf16* h;  // [n][H][D]
    const bf16* x;
    const float* post;
    const float* comb;
    int32_t n, hc, dim;
};

// ---- attention (3.5) ----------------------------------------------------------------------------

// Keys of query i (position p = position + i), which are also its values: window positions max(0, p
// - window + 1) .. p, ascending, then rows topk[i][..] of `compressed` (-1 ends nothing: it is
// passed over). The vector of position j is chunk[j - position] if j >= position, else buffer[j mod
// window]. score = fp32 dot of 16 * scale; M = max(scores, -1e30); P = exp(score - M); den = sum P
// (ascending) + exp(sink - M); out[d] = bf16(sum over keys ascending of bf16(P) * k[d], in fp32, /
// den). No key: 0.
struct SparseAttention {
    bf16* out;               // [n][heads][dim]
    const bf16* q;           // [n][heads][dim]
    const bf16* buffer;      // [window][dim]
    const bf16* chunk;       // [n][dim]
    const bf16* compressed;  // [rows][dim] or null
    const int32_t* topk;     // [n][k]
    const float* sink;       // [heads]
    int32_t n, heads, dim, window, position, k;
    float scale;
};

// buffer[(position + i) mod window] = chunk[i] for the last min(n, window) rows.
struct WindowStore {
    bf16* buffer;
    const bf16* chunk;  // [n][dim]
    int32_t n, dim, window, position;
};

// ---- compressor (3.6) ---------------------------------------------------------------------------

// Pools groups of `ratio` tokens: w = softmax over the group of gate, per feature (max-subtracted,
// exp_f32); latent = bf16(sum w * kv), ascending. Token t of the pooled stream is open[t] while t <
// open_rows, else (kv, gate)[t - open_rows]. Writes floor((open_rows + n) / ratio) latents;
// afterwards the rest is moved to open_* (the caller counts).
struct CompressPool {
    bf16* latent;       // [groups][dim]
    const float* kv;    // [n][dim]
    const float* gate;  // [n][dim]
    float* open_kv;     // [ratio][dim], in and out
    float* open_gate;
    int32_t n, dim, ratio, open_rows;
};

// ---- indexer (3.7) ------------------------------------------------------------------------------

// Score of row t for query i: S_h = bf16(q_h . key_t) (dot of 16), v_h = bf16(max(S_h, 0) * w_h),
// score = bf16(sum over heads ascending of v_h). Visible rows: t < (p + 1) / ratio, p = position +
// i. Writes the k best visible rows ascending, rest -1; equal scores: lower row first. If at most k
// rows are visible, all of them. publish: block score = max over its rows, the newest visible row's
// block is +inf; the `keep` best blocks that are not -inf are marked in candidates[i][block] (1 or
// 0). restrict: only rows in marked blocks count. A score that is NaN counts as -inf.
enum class Candidates { none, publish, restrict };
struct IndexTopk {
    int32_t* topk;        // [n][k]
    uint8_t* candidates;  // [n][blocks_max], in or out; null for none
    const bf16* q;        // [n][heads][dim]
    const bf16* w;        // [n][heads]
    const bf16* keys;     // [rows][dim]
    float* scratch;       // index_scratch_floats(...) floats
    int32_t n, heads, dim, k, position, ratio, rows;
    int32_t block, keep, blocks_max;
    Candidates mode;
};

// w[i] = bf16(w[i] * scale).
struct ScaleBf16 {
    bf16* x;
    int32_t count;
    float scale;
};

// ---- engram (3.8) -------------------------------------------------------------------------------

// e = bf16(code * scale), then act_quant of the concatenated columns: rows [n * columns][dim] ->
// out [n][columns * dim]. index[i * columns + c] is the row's place in codes/scales (distinct rows
// are stored once).
struct EngramGather {
    QuantRows out;
    const uint8_t* codes;   // [distinct][dim]
    const uint8_t* scales;  // [distinct][dim / 32]
    const int32_t* index;   // [n][columns]
    int32_t n, columns, dim;
};

// Gate and update of section 3.8: kv [n][(H + 1) * D], key = first H * D, value = last D. w =
// q_weight * k_weight (fp32). rho = 1/sqrt(sum(h^2)/D + eps) * 1/sqrt(sum(key^2)/D + eps); d = (sum
// (h * w) * key) * rho * fp32(D^-0.5) (dots of 16); g = sigmoid(copysign(sqrt(max(|d|, 1e-6)), d));
// h = bf16(h + g * value). In place.
struct EngramGate {
    bf16* h;  // [n][H][D]
    const bf16* kv;
    const bf16* q_weight;  // [H][D]
    const bf16* k_weight;
    int32_t n, hc, dim;
    float eps;
};

// ---- moe (3.9) ----------------------------------------------------------------------------------

// z = gate . x (dot of 16), score = sqrt(softplus(z)); the k largest score + bias, lower expert
// first among equals; weights = score / (sum (in chosen order) + 1e-20) * scale when k > 1 (else
// score * scale). Chosen order: descending score + bias. A token with a NaN score + bias gets ids
// -1 and weights NaN.
struct Route {
    int32_t* ids;     // [n][k]
    float* weights;   // [n][k]
    Bf16Matrix gate;  // [experts][D]
    const float* bias;
    const bf16* x;  // [n][D]
    int32_t n, k;
    float scale;
};

// a = bf16(weight * (silu(min(g, limit)) * clamp(u, +-limit))), then act_quant. weight null: 1 is
// not multiplied. NaN passes through the clamps.
struct Swiglu {
    QuantRows out;     // [n][cols]
    const bf16* gate;  // [n][cols]
    const bf16* up;
    const float* weights;  // [n] or null
    int32_t n, cols;
    float limit;
};

// One routed expert on the rows that chose it, bit-equal on every backend.
// A linear with an FP4 weight: block b of 32 inputs gives the exact integer
//   I = sum over 32 of e4m3_to_int(q) * e2m1_to_twice(w)            (|I| < 2^27)
// and the term ((fp32(I) * s_x') * s_w, s_x' = 2^(byte - 127 - 10) (NaN if byte is 255), s_w =
// e8m0_to_float(scale byte). EIGHT lanes: lane l = b mod 8 adds its terms in ascending b, from 0;
// then the tree v[i] += v[i + 4], 2, 1. y = bf16(v[0]). (Eight: one AVX2 register, and few enough
// accumulators for a tensor-core tile.)
//   g = w1 x, u = w3 x, a = Swiglu(g, u, weight), y = w2 a.
// Row r reads token rows[r] of x with weight weights[r], and writes out + slots[r] * D.
struct RoutedExpert {
    bf16* out;  // [slots_total][D]
    ExpertWeights expert;
    QuantRows x;           // [n][D]
    const int32_t* rows;   // [count]
    const int32_t* slots;  // [count]
    const float* weights;  // [count]
    int32_t count;
    float limit;
};

// Several RoutedExpert at once, on any number of rows each: one or two launches where a device has
// them.
struct RoutedExpertBatch {
    const RoutedExpert* items;
    int32_t count;
};

// y[i] = bf16((sum over k ascending of fp32(partial[i][k])) + shared[i]): partials in ascending
// expert id, as slots were given.
struct Combine {
    bf16* y;              // [n][D]
    const bf16* partial;  // [n][k][D]
    const bf16* shared;   // [n][D]
    int32_t n, k, dim;
};

// ---- chains ------------------------------------------------------------------------------------
//
// Several of the operations above in a row, one launch where a device profits. A chain gives the
// bits of its parts run one after another, which is what Backend does unless it has something
// better.

// Between two sub-layers, one row a token: y = Combine (if `combine.y`), h = HyperExpand (if
// `expand.h`), then HyperMix, HyperCollapse, RmsNorm and ActQuant on it. The parts' inputs and
// outputs are each other's where the names say so; expand writes the streams to mix.h, which is not
// expand.h, and reads expand.h, unless they are the same.
struct HyperStep {
    Combine combine;     // y == null: none
    HyperExpand expand;  // h == null: none
    HyperMix mix;
    HyperCollapse collapse;
    RmsNorm norm;    // of collapse.x
    ActQuant quant;  // of norm.y
};

// Two linears with the same activations and the same cols.
struct LinearFp8Pair {
    LinearFp8 a, b;
};

// The normed query latent with its quantised form, and the finished key of the window; `store.buffer`
// null: kept for later.
struct LatentFinish {
    RmsNorm query;
    ActQuant query_quant;
    RmsNorm key;
    RopeRequant key_place;
    WindowStore store;
};

// Queries rotated, attention, outputs rotated back. op.q is scratch afterwards.
struct RotatedAttention {
    RopeRequant query;  // in place on attention.q
    SparseAttention attention;
    RopeRequant back;  // in place on attention.out
};

struct GroupedOutputQuant {
    GroupedOutput output;
    ActQuant quant;
};

// Of every row: place[i][0] = the place of its largest value, the first of equals; place[i][1] =
// that of its first value that is no finite number, or -1.
struct Best {
    int32_t* place;  // [n][2]
    const float* x;  // [n][count]
    int32_t n, count;
};

// Gate and up projections of one FP8 expert, SwiGLU and quantisation.
struct GateUp {
    LinearFp8 gate, up;
    Swiglu swiglu;
};

// ---- the table ----------------------------------------------------------------------------------
//
// Every operation once. From these lists come the virtual functions of Backend, all of
// ForwardingBackend, and what the reference, CPU and CUDA rooms declare and call.

// Operations that every backend computes itself.
#define SLUICE_PLAIN_OPS(X) \
    X(ActQuant)             \
    X(RopeRequant)          \
    X(RmsNorm)              \
    X(LinearFp8)            \
    X(LinearBf16)           \
    X(GroupedOutput)        \
    X(HyperMix)             \
    X(HyperCollapse)        \
    X(HyperExpand)          \
    X(SparseAttention)      \
    X(WindowStore)          \
    X(CompressPool)         \
    X(IndexTopk)            \
    X(ScaleBf16)            \
    X(EngramGather)         \
    X(EngramGate)           \
    X(Route)                \
    X(Swiglu)               \
    X(RoutedExpert)         \
    X(Combine)

// Operations that backend.cpp computes, most of them from plain ones, unless a backend has something
// better.
#define SLUICE_COMPOSED_OPS(X) \
    X(RoutedExpertBatch)       \
    X(Best)                    \
    X(HyperStep)               \
    X(LinearFp8Pair)           \
    X(LatentFinish)            \
    X(RotatedAttention)        \
    X(GroupedOutputQuant)      \
    X(GateUp)

#define SLUICE_OPS(X)   \
    SLUICE_PLAIN_OPS(X) \
    SLUICE_COMPOSED_OPS(X)

}  // namespace sluice
