// IndexTopk: scores of a slice of queries, in tiles of sixteen rows spread over the threads; then
// one thread per query selects.
//
// Scores are kept as 16-bit ranks, which have the order of the bf16 scores: 0 is a row that does
// not count, -inf (and NaN) is 0x007f. Two histograms of one byte each give the k-th best rank; a
// last pass in ascending order takes all ranks above it and the first ones equal to it.
#pragma once

#include <omp.h>

#include "kernels/cpu/dots.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

constexpr int32_t rank_of_minus_infinity = 0x007f, rank_of_infinity = 0xff80;

SLUICE_LANE i32x16 rank_of(f32x16 score) {
    i32x16 u = to_bf16_bits(score) & splat_int(0xffff);
    i32x16 magnitude = u & splat_int(0x7fff);
    i32x16 nan = magnitude > splat_int(0x7f80);
    i32x16 negative = u > splat_int(0x8000);  // -0 becomes 0
    i32x16 rank = select(negative, splat_int(0xffff) - u, magnitude | splat_int(0x8000));
    return select(nan, splat_int(rank_of_minus_infinity), rank);
}

// ---- scores -------------------------------------------------------------------------------------

struct IndexScratch {
    float* q;     // [heads, rounded up to 4][width]
    float* keys;  // [16][width]
    float* dots;  // [heads, rounded up to 4][16]

    static int64_t heads4(int64_t heads) { return (heads + 3) / 4 * 4; }
    static size_t bytes(int64_t heads, int64_t width) {
        return (heads4(heads) * (width + 16) + 16 * width) * sizeof(float);
    }
    static IndexScratch place(void* memory, int64_t heads, int64_t width) {
        float* at = reinterpret_cast<float*>(memory);
        return {at, at + heads4(heads) * width, at + (heads4(heads) + 16) * width};
    }
};

static int64_t visible_rows(const IndexTopk& op, int64_t i) {
    int64_t visible = (int64_t(op.position) + i + 1) / op.ratio;
    return visible < op.rows ? visible : op.rows;
}
static bool needs_scores(const IndexTopk& op, int64_t i) {
    return op.mode == Candidates::publish || visible_rows(op, i) > op.k || op.scores;
}

// Whether any of the rows t .. end - 1 counts for query i.
static bool any_candidate(const IndexTopk& op, int64_t i, int64_t t, int64_t end) {
    if (op.mode != Candidates::restrict) return true;
    const uint8_t* marks = op.candidates + i * op.blocks_max;
    for (int64_t b = t / op.block; b <= (end - 1) / op.block; ++b)
        if (marks[b]) return true;
    return false;
}

// Ranks for query i of rows t .. t + count - 1, whose keys are in the scratch.
static void score_rows(const IndexTopk& op, const IndexScratch& s, int64_t i, int64_t t,
                       int64_t count, uint16_t* rank) {
    int64_t heads = op.heads, width = padded_width(op.dim);
    float* kept = op.scores ? op.scores + i * op.rows + t : nullptr;
    if (!any_candidate(op, i, t, t + count)) {
        memset(rank + t, 0, count * sizeof(uint16_t));
        for (int64_t r = 0; kept && r < count; ++r) kept[r] = -__builtin_inff();
        return;
    }
    for (int64_t h = 0; h < IndexScratch::heads4(heads); ++h)
        widen(s.q + h * width, h < heads ? op.q + (i * heads + h) * op.dim : nullptr, op.dim);
    for (int64_t h = 0; h < heads; h += 4)
        for (int64_t r = 0; r < count; r += 4) {
            float dots[16];
            store(dots, dots_4x4(s.q + h * width, s.keys + r * width, width));
            for (int j = 0; j < 4; ++j) memcpy(s.dots + (h + j) * 16 + r, dots + 4 * j, 16);
        }
    f32x16 sum = zero();
    for (int64_t h = 0; h < heads; ++h) {
        f32x16 dot = round_bf16(load(s.dots + h * 16));
        dot = select(dot <= zero(), zero(), dot);
        sum = sum + round_bf16(dot * splat(to_float(op.w[i * heads + h])));
    }
    if (kept) {
        float scores[16];
        store(scores, round_bf16(sum));
        for (int64_t r = 0; r < count; ++r) {
            bool counts = scores[r] == scores[r] && any_candidate(op, i, t + r, t + r + 1);
            kept[r] = counts ? scores[r] : -__builtin_inff();
        }
    }
    int32_t ranks[16];
    i32x16 all = rank_of(sum);
    memcpy(ranks, &all, sizeof ranks);
    for (int64_t r = 0; r < count; ++r)
        rank[t + r] = any_candidate(op, i, t + r, t + r + 1) ? uint16_t(ranks[r]) : 0;
}

// Sixteen rows for queries first .. first + queries - 1; the ranks of query i start at rank + (i -
// first) * stride.
static void score_tile(const IndexTopk& op, const IndexScratch& s, int64_t first, int64_t queries,
                       int64_t t, uint16_t* rank, int64_t stride) {
    int64_t width = padded_width(op.dim);
    int64_t rows = op.rows - t < 16 ? op.rows - t : 16;
    for (int64_t r = 0; r < 16; ++r)
        widen(s.keys + r * width, r < rows ? op.keys + (t + r) * op.dim : nullptr, op.dim);
    for (int64_t i = first; i < first + queries; ++i) {
        int64_t count = visible_rows(op, i) - t;
        if (count > 0 && needs_scores(op, i))
            score_rows(op, s, i, t, count < 16 ? count : 16, rank + (i - first) * stride);
    }
}

// ---- selection ----------------------------------------------------------------------------------

// The k best of `count` ranks: all above `least`, and the first `ties` equal to it.
struct Threshold {
    int32_t least, ties;
};

static Threshold threshold_of(const uint16_t* rank, int64_t count, int64_t k) {
    int64_t above = 0;
    int32_t high = 255, low = 255;
    int64_t bins[256] = {};
    for (int64_t t = 0; t < count; ++t) bins[rank[t] >> 8] += rank[t] != 0;
    while (high >= 0 && above + bins[high] < k) above += bins[high--];
    if (high < 0) return {0, 0};  // at most k rows count
    memset(bins, 0, sizeof bins);
    for (int64_t t = 0; t < count; ++t)
        if (rank[t] >> 8 == high) bins[rank[t] & 255] += rank[t] != 0;
    while (above + bins[low] < k) above += bins[low--];
    return {high << 8 | low, int32_t(k - above)};
}

// Calls take(t) for the k best, in ascending order.
template <class Take>
static void for_best(const uint16_t* rank, int64_t count, int64_t k, Take take) {
    if (k <= 0) return;
    Threshold limit = threshold_of(rank, count, k);
    for (int64_t t = 0; t < count; ++t) {
        if (rank[t] > limit.least)
            take(t);
        else if (rank[t] == limit.least && limit.ties > 0) {
            --limit.ties;
            take(t);
        }
    }
}

// The ranks of blocks replace the ranks of rows: block b is written after its first row was read.
static void publish_candidates(const IndexTopk& op, int64_t i, int64_t visible, uint16_t* rank) {
    uint8_t* marks = op.candidates + i * op.blocks_max;
    memset(marks, 0, op.blocks_max);
    int64_t blocks = (visible + op.block - 1) / op.block;
    for (int64_t b = 0; b < blocks; ++b) {
        int64_t end = (b + 1) * op.block < visible ? (b + 1) * op.block : visible;
        uint16_t best = 0;
        for (int64_t t = b * op.block; t < end; ++t) best = rank[t] > best ? rank[t] : best;
        rank[b] = b + 1 == blocks ? uint16_t(rank_of_infinity) : best;
    }
    for_best(rank, blocks, op.keep, [=](int64_t b) {
        if (rank[b] > rank_of_minus_infinity) marks[b] = 1;
    });
}

static void select_rows(const IndexTopk& op, int64_t i, uint16_t* rank) {
    int64_t visible = visible_rows(op, i), found = 0;
    for (int64_t t = visible; op.scores && t < op.rows; ++t)
        op.scores[i * op.rows + t] = -__builtin_inff();
    int32_t* topk = op.topk + i * op.k;
    if (visible <= op.k)
        for (; found < visible; ++found) topk[found] = int32_t(found);
    else
        for_best(rank, visible, op.k, [&](int64_t t) { topk[found++] = int32_t(t); });
    for (; found < op.k; ++found) topk[found] = -1;
    if (op.mode == Candidates::publish) publish_candidates(op, i, visible, rank);
}

static void run(const IndexTopk& op, Team& team) {
    int64_t width = padded_width(op.dim), slice = index_queries(op.n, op.rows);
    size_t bytes = (IndexScratch::bytes(op.heads, width) + 63) / 64 * 64;
    char* memory = static_cast<char*>(reserve(team, bytes * team.threads));
    if (!memory) return;
    uint16_t* rank = reinterpret_cast<uint16_t*>(op.scratch);
    int64_t work = visible_rows(op, op.n - 1) * op.n * op.heads * op.dim;
#pragma omp parallel num_threads(team.threads) if (work > small_work)
    for (int64_t first = 0; first < op.n; first += slice) {
        auto scratch = IndexScratch::place(memory + bytes * omp_get_thread_num(), op.heads, width);
        int64_t queries = op.n - first < slice ? op.n - first : slice, end = 0;
        for (int64_t i = first; i < first + queries; ++i)
            if (needs_scores(op, i)) end = visible_rows(op, i);
#pragma omp for schedule(dynamic, 4)
        for (int64_t t = 0; t < end; t += 16)
            score_tile(op, scratch, first, queries, t, rank, op.rows);
#pragma omp for schedule(dynamic)
        for (int64_t i = first; i < first + queries; ++i)
            select_rows(op, i, rank + (i - first) * op.rows);
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
