// Every operation of the forward pass as a contract: what it computes, with every rounding point.
// `n` is the number of token rows. A row's result never depends on n, on its neighbours or on the
// number of threads.
//
// The same struct is implemented in three rooms: plain loops in reference/, a table per instruction
// set in cpu/, and the CUDA backend in cuda/. The sources of an operation have the same name in
// each: reference/X.cpp, cpu/X.h, cuda/X.cu, tests/kernels/X_test.cpp.
//
// Order of additions, everywhere unless stated otherwise ("dot of 16"): partial sums over k mod 16
// in ascending k, each product rounded to fp32 (exact for these formats except at the ends of the
// range), then the tree v[i] += v[i + 8], 4, 2, 1. CPU code of every instruction set repeats this
// bit by bit. The CUDA backend has its own constant order, except for routed experts, which are
// bit-identical everywhere (see "moe" below).
//
// Tolerance against reference/ (which sums in double): nmse <= 1e-6 before the output is rounded;
// bit-identical for operations without a sum. Pointers may not overlap unless stated. The formulas
// come from the models' specifications: deepseek-v41.md and deepseek-v4.md (engine/model/*), cited
// by section.
//
// Fields with a default value are what models differ in.
#pragma once

#include "kernels/matrix.h"

namespace sluice {

// ---- quant (deepseek-v41.md section 3.0) --------------------------------------------------------

// Groups of `group` values: a = max(|x|, 1e-4); s = 2^ceil(log2(a * fp32(1/448))); q =
// e4m3(clamp(x / s, +-448)). `out` has a scale per 32 values in any case: those of a wider group
// are equal. A group with a non-finite value becomes NaN as a whole (see QuantRows).
struct ActQuant {
    QuantRows out;
    const bf16* x;  // [n][cols], cols % group == 0
    int32_t n, cols;
    int32_t group = 32;  // 32 or 128
};

// The three in-place quantisers write back bf16(q * s):
//   fp8_32: as ActQuant; fp8_64: the same in groups of 64;
//   fp4_32: a = max(|x|, 6 * 2^-126), s = 2^ceil(log2(a * fp32(1/6))), E2M1;
//   fp4_16: groups of 16, a = max(|x|, 6 * 2^-9), s = e4m3(min(a / 6, 448)), x / s a true division,
//           E2M1.
// When rope.cos is set, the last 2 * rope.half values of each vector are rotated first (adjacent
// pairs, bf16 result). The last `kept` values of each vector are not quantised; the others are whole
// groups. A group with a non-finite value becomes NaN.
enum class Requant { none, fp8_32, fp4_32, fp4_16, fp8_64 };
struct RopeRequant {
    bf16* x;  // [n][heads][dim], in place
    int32_t n, heads, dim;
    RopeTable rope;    // cos == nullptr: no rotation
    int32_t position;  // of row 0
    int32_t stride;    // position of row i: position + i * stride
    bool inverse;      // conjugate rotation
    Requant requant;
    int32_t kept = 0;
};

// Each vector through the Walsh-Hadamard transform (deepseek-v4.md section 3.4): y = H x * dim^-0.5
// in natural order, H[i][j] = (-1)^popcount(i & j). Butterflies in fp32, strides 1, 2, 4, ..., dim /
// 2, (a, b) -> (a + b, a - b); then one product with fp32(dim^-0.5), rounded to bf16.
struct Hadamard {
    bf16* x;  // [rows][dim], in place
    int32_t rows;
    int32_t dim;  // a power of two, at most 1024
};

// ---- norm (deepseek-v41.md section 3.0) ---------------------------------------------------------

// y = bf16(w * (x * (1 / sqrt(sum(x^2) / cols + eps)))), fp32 inside; sum: dot of 16. y may be x.
struct RmsNorm {
    bf16* y;
    const bf16* x;  // [n][cols]
    const bf16* w;  // [cols]
    int32_t n, cols;
    float eps;
};

// Every head to a root mean square of 1, in bf16 steps (deepseek-v4.md section 3.2, step 2): m =
// bf16(sum(bf16(x^2)) / dim), rho = bf16(1 / sqrt(bf16(m + eps))), x = bf16(x * rho); sum: dot of 16
// in fp32.
struct HeadNorm {
    bf16* x;  // [n][heads][dim], in place; null in a chain: none
    int32_t n, heads, dim;
    float eps;
};

// ---- linear (deepseek-v41.md section 3.0) -------------------------------------------------------

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

// Grouped output projection (deepseek-v41.md section 3.5, step 6). Group g of o is o[g * cols ..];
// its weights are the rows [g * rank, (g + 1) * rank) of w: t[i][g * rank + r] = bf16(dot(w[g *
// rank + r], o[i][g])). w is FP8 (value * scale, exact in bf16), o is bf16 and not quantised; dot
// of 16 over products of w (bare) with o, scaled per block of 32 as in LinearFp8.
struct GroupedOutput {
    bf16* t;        // [n][groups * rank]
    Fp8Matrix w;    // rows = groups * rank, cols = those of one group
    const bf16* o;  // [n][groups][cols]
    int32_t n, groups;
};

// ---- hyper-connections (deepseek-v41.md section 3.4) --------------------------------------------

// u = h of one token, H * D values. r = 1 / sqrt(sum(u^2) / (H D) + eps); m = (fn . u) * r (dot of
// 16, products rounded to fp32). pre[j] = sigmoid(m[j] * scale[0] + base[j]) + hc_eps; post[j] = 2
// * sigmoid(m[H + j] * scale[1] + base[H + j]); C[j][k] = m[2H + jH + k] * scale[2] + base[2H + jH
// + k]; softmax over k, + hc_eps; columns / (sum + hc_eps); then (iterations - 1) x (rows / (sum +
// hc_eps), columns / (sum + hc_eps)). Sums are ascending. H <= 16.
//
// Without `post` and `comb` only `pre` is computed, from the first H rows (the end of a model whose
// streams are summed with coefficients of their own: deepseek-v4.md section 3.1).
struct HyperMix {
    float* pre;          // [n][H]
    float* post;         // [n][H] or null
    float* comb;         // [n][H][H] or null
    const bf16* h;       // [n][H][D]
    F32Matrix fn;        // [(2 + H) * H][H * D], or [H][H * D]
    const float* base;   // [(2 + H) * H] or [H]
    const float* scale;  // [3] or [1]
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

// ---- attention (deepseek-v41.md sections 3.5 and 3.5.1) -----------------------------------------

// The keys of query i (position p = position + i) are also its values: window positions max(0, p -
// window + 1) .. p in ascending order, then the rows topk[i][..] of `compressed` (-1 is skipped, it
// ends nothing); with `ratio` > 0 there is no list, and the rows are all visible ones: t < (p + 1) /
// ratio, of which there are at most k. The vector of position j is chunk[j - position] if j >= position, else buffer[j
// mod window]. score = fp32 dot of 16 * scale; M = max(scores, -1e30); P = exp(score - M); den =
// sum of P (ascending) + exp(sink - M); out[d] = bf16(sum over keys ascending of bf16(P) * k[d], in
// fp32, / den). Without any key: 0.
struct SparseAttention {
    bf16* out;               // [n][heads][dim]
    const bf16* q;           // [n][heads][dim]
    const bf16* buffer;      // [window][dim], keys before the chunk
    const bf16* chunk;       // [n][dim]
    const bf16* compressed;  // [rows][dim] or null
    const int32_t* topk;     // [n][k]; null if ratio > 0
    const float* sink;       // [heads]
    int32_t n, heads, dim, window, position, k;
    float scale;
    int32_t ratio = 0;
};

// buffer[(position + i) mod window] = chunk[i] for the last min(n, window) rows.
struct WindowStore {
    bf16* buffer;
    const bf16* chunk;  // [n][dim]
    int32_t n, dim, window, position;
};

// ---- compressor (deepseek-v41.md section 3.6, deepseek-v4.md section 3.3) -----------------------

// Pools groups of `ratio` tokens: w = softmax of gate over the group, per feature (max-subtracted,
// exp_f32); latent = bf16(sum w * kv), ascending. Token t of the pooled stream is open[t] while t <
// open_rows, else (kv, gate)[t - open_rows]. Writes floor((open_rows + n) / ratio) latents and
// moves the remaining tokens to open_*; the caller keeps count of them.
//
// With `place`, place[r] is added to the gate of the r-th token of each group before anything else
// (fp32); open_gate holds sums.
//
// With `overlap` a row of kv, gate, place and open_* has 2 * dim columns, and open_* has 2 * ratio
// rows: the previous group, then the open one. A latent pools 2 * ratio entries per feature d: the
// previous group's column d, then its own group's column dim + d, in the order of tokens. While
// there is no previous group (`previous` false) it pools only its own. Afterwards the rows of the
// previous group are those of the last complete one, or as before if no group was completed; open
// token t is in row ratio + t.
struct CompressPool {
    bf16* latent;       // [groups][dim]
    const float* kv;    // [n][dim]
    const float* gate;  // [n][dim]
    float* open_kv;     // [ratio][dim], in and out
    float* open_gate;
    int32_t n, dim, ratio, open_rows;
    const float* place = nullptr;  // [ratio][dim]
    bool overlap = false, previous = false;
};

// ---- indexer (deepseek-v41.md section 3.7) ------------------------------------------------------

// Score of row t for query i: S_h = bf16(q_h . key_t) (dot of 16), v_h = bf16(max(S_h, 0) * w_h),
// score = bf16(sum over heads ascending of v_h); a NaN score counts as -inf. Visible rows: t < (p +
// 1) / ratio, p = position + i. Writes the k best visible rows in ascending order and -1 for the
// rest; among equal scores the lower row is first. With at most k visible rows, all of them.
//   publish:  the score of a block is the maximum over its rows, and +inf for the block of the
//             newest visible row; the `keep` best blocks that are not -inf are marked in
//             candidates[i][block] (1 or 0).
//   restrict: only rows in marked blocks count.
enum class Candidates { none, publish, restrict };
struct IndexTopk {
    int32_t* topk;        // [n][k]
    uint8_t* candidates;  // [n][blocks_max], in or out; may be null for none
    const bf16* q;        // [n][heads][dim]
    const bf16* w;        // [n][heads]
    const bf16* keys;     // [rows][dim]
    float* scratch;       // index_scratch_floats(...) floats
    int32_t n, heads, dim, k, position, ratio, rows;
    int32_t block, keep, blocks_max;
    Candidates mode;
    float* scores = nullptr;  // [n][rows]: -inf where a row does not count; null: not kept
};

// w[i] = bf16(w[i] * scale).
struct ScaleBf16 {
    bf16* x;
    int32_t count;
    float scale;
};

// ---- engram (deepseek-v41.md section 3.8) -------------------------------------------------------

// e = bf16(code * scale), then ActQuant of the concatenated columns: rows [n * columns][dim] -> out
// [n][columns * dim]. index[i * columns + c] is the row's place in codes and scales, where each
// distinct row is stored once.
struct EngramGather {
    QuantRows out;
    const uint8_t* codes;   // [distinct][dim]
    const uint8_t* scales;  // [distinct][dim / 32]
    const int32_t* index;   // [n][columns]
    int32_t n, columns, dim;
};

// Gate and update: kv [n][(H + 1) * D], key = first H * D, value = last D. w = q_weight * k_weight
// (fp32). rho = 1/sqrt(sum(h^2)/D + eps) * 1/sqrt(sum(key^2)/D + eps); d = (sum (h * w) * key) *
// rho * fp32(D^-0.5) (dots of 16); g = sigmoid(copysign(sqrt(max(|d|, 1e-6)), d)); h = bf16(h + g *
// value). In place.
struct EngramGate {
    bf16* h;  // [n][H][D]
    const bf16* kv;
    const bf16* q_weight;  // [H][D]
    const bf16* k_weight;
    int32_t n, hc, dim;
    float eps;
};

// ---- moe (deepseek-v41.md section 3.9) ----------------------------------------------------------

// z = gate . x (dot of 16), score = sqrt(softplus(z)). The k largest of score + bias are chosen, in
// descending order; among equals the lower expert is first. weights = score / (sum in chosen order
// + sum_floor) * scale when k > 1 or normalise_one, else score * scale. A token with a NaN score +
// bias gets ids -1 and weights NaN.
//
// given: `ids` says which experts, each in range; the rest is the same, in the order of ids, without
// a bias. A token whose scores are NaN anywhere gets ids -1 too.
struct Route {
    int32_t* ids;       // [n][k]; out, or in if given
    float* weights;     // [n][k]
    Bf16Matrix gate;    // [experts][D]
    const float* bias;  // [experts]; null if given
    const bf16* x;      // [n][D]
    int32_t n, k;
    float scale;
    float sum_floor = 1e-20f;
    bool normalise_one = false, given = false;
};

// a = bf16(weight * (silu(min(g, limit)) * clamp(u, +-limit))), then ActQuant in groups of `group`.
// weights null: no multiplication. NaN passes through the clamps.
struct Swiglu {
    QuantRows out;     // [n][cols]
    const bf16* gate;  // [n][cols]
    const bf16* up;
    const float* weights;  // [n] or null
    int32_t n, cols;
    float limit;
    int32_t group = 32;  // 32 or 128; cols % group == 0
};

// One routed expert on the rows that chose it, bit-identical on every backend. A linear with an FP4
// weight: block b of 32 inputs gives the exact integer
//   I = sum over 32 of e4m3_to_int(q) * e2m1_to_twice(w)            (|I| < 2^27)
// and the term (fp32(I) * s_x') * s_w, with s_x' = 2^(byte - 127 - 10) (NaN if byte is 255) and s_w
// = e8m0_to_float(scale byte). EIGHT lanes: lane l = b mod 8 adds its terms in ascending b, from 0;
// then the tree v[i] += v[i + 4], 2, 1. y = bf16(v[0]). (Eight: one AVX2 register, and few enough
// accumulators for a tensor-core tile.)
//   g = w1 x, u = w3 x, a = Swiglu(g, u, weight) in groups of `group`, y = w2 a.
// Row r reads token rows[r] of x, has weight weights[r], and writes out + slots[r] * D.
struct RoutedExpert {
    bf16* out;  // [slots_total][D]
    ExpertWeights expert;
    QuantRows x;           // [n][D]
    const int32_t* rows;   // [count]
    const int32_t* slots;  // [count]
    const float* weights;  // [count]
    int32_t count;
    float limit;
    int32_t group = 32;
};

// Several RoutedExpert at once, each on any number of rows: one or two launches on a device that
// has such kernels.
struct RoutedExpertBatch {
    const RoutedExpert* items;
    int32_t count;
};

// y[i] = bf16((sum over k ascending of fp32(partial[i][k])) + shared[i]). The partials are in
// ascending order of expert id, as their slots were given.
struct Combine {
    bf16* y;              // [n][D]
    const bf16* partial;  // [n][k][D]
    const bf16* shared;   // [n][D]
    int32_t n, k, dim;
};

// ---- chains -------------------------------------------------------------------------------------
//
// Several of the operations above in a row: one launch where that pays on a device. A chain gives
// the bits of its parts run one after another, which is what Backend does unless it has something
// better.

// What lies between two sub-layers, for each token: y = Combine (if `combine.y`), h = HyperExpand
// (if `expand.h`), then HyperMix, HyperCollapse, RmsNorm and ActQuant of the result. Where the
// names say so, the input of one part is the output of another. collapse.pre may be mix.pre, the
// step's own coefficients (deepseek-v4.md section 3.1), or another array. expand reads expand.h and
// writes the streams to mix.h, another array, unless the two are the same.
struct HyperStep {
    Combine combine;     // y == null: none
    HyperExpand expand;  // h == null: none
    HyperMix mix;
    HyperCollapse collapse;
    RmsNorm norm;    // of collapse.x
    ActQuant quant;  // of norm.y
};

// Two linears with the same activations and the same number of columns.
struct LinearFp8Pair {
    LinearFp8 a, b;
};

// The normed query latent and its quantised form, and the finished key of the window.
// `store.buffer` null: the key is not stored yet.
struct LatentFinish {
    RmsNorm query;
    ActQuant query_quant;
    RmsNorm key;
    RopeRequant key_place;
    WindowStore store;
};

// Queries normed (if norm.x) and rotated, attention, outputs rotated back. attention.q is scratch
// afterwards.
struct RotatedAttention {
    RopeRequant query;  // in place on attention.q
    SparseAttention attention;
    RopeRequant back;  // in place on attention.out
    HeadNorm norm{};   // in place on attention.q
};

struct GroupedOutputQuant {
    GroupedOutput output;
    ActQuant quant;
};

// For every row: place[i][0] is the index of its largest value, the first among equals; place[i][1]
// is the index of its first non-finite value, or -1.
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
// Every operation once. These lists generate the virtual functions of Backend, all of
// ForwardingBackend, and what the reference, CPU and CUDA rooms declare and call (see README.md).

// Every backend computes these itself.
#define SLUICE_PLAIN_OPS(X) \
    X(ActQuant)             \
    X(RopeRequant)          \
    X(Hadamard)             \
    X(HeadNorm)             \
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

// backend.cpp computes these, most of them from plain ones, unless a backend has something better.
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
