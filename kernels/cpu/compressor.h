// CompressPool: sixteen features of all groups at a time, so that the thread that read the tail of
// the stream may move it to the open group.
#pragma once

#include <omp.h>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// Sixteen features of the pooled stream. Negative tokens are those of the previous group.
struct PooledStream {
    const float* open;   // open token 0
    const float* rows;   // token open_rows
    const float* place;  // added to `rows`, null: nothing
    int64_t open_rows, width, ratio;
    int left;  // features, at most 16

    SLUICE_LANE f32x16 fetch(const float* at, int left) {
        return left < 16 ? load_tail(at, left) : load(at);
    }
    f32x16 at(int64_t t, int64_t column) const {
        if (t < open_rows) return fetch(open + t * width + column, left);
        f32x16 x = fetch(rows + (t - open_rows) * width + column, left);
        return place ? x + fetch(place + t % ratio * width + column, left) : x;
    }
    void copy(int64_t t, int64_t column, float* row) const {
        f32x16 x = at(t, column);
        left < 16 ? store_tail(row + column, x, left) : store(row + column, x);
    }
};

// What a latent pools.
struct PoolEntry {
    f32x16 gate, kv;
};

// Tokens first .. end - 1 through one column. Returns where the next entries go.
static PoolEntry* gather(PoolEntry* to, const PooledStream& kv, const PooledStream& gate,
                         int64_t first, int64_t end, int64_t column) {
    for (int64_t t = first; t < end; ++t) *to++ = PoolEntry{gate.at(t, column), kv.at(t, column)};
    return to;
}

static f32x16 pool_entries(PoolEntry* entry, const PoolEntry* end) {
    f32x16 max = entry->gate, den = zero(), sum = zero();
    for (auto* e = entry + 1; e < end; ++e) max = select(e->gate > max, e->gate, max);
    for (auto* e = entry; e < end; ++e) {
        e->gate = exp_f32(e->gate - max);
        den = den + e->gate;
    }
    for (auto* e = entry; e < end; ++e) sum = sum + e->gate / den * e->kv;
    return sum;
}

// Moves column .. column + 15 of the last complete group and of the open tokens to their places.
static void keep_open(const CompressPool& op, const PooledStream& kv, const PooledStream& gate,
                      int64_t column) {
    int64_t tokens = int64_t(op.open_rows) + op.n, done = tokens / op.ratio * op.ratio;
    float *open_kv = const_cast<float*>(kv.open), *open_gate = const_cast<float*>(gate.open);
    auto move = [&](int64_t t, int64_t to) {
        kv.copy(t, column, open_kv + to * kv.width);
        gate.copy(t, column, open_gate + to * gate.width);
    };
    // The tokens of the last group may be open ones, which are overwritten afterwards.
    for (int64_t r = 0; op.overlap && done > 0 && r < op.ratio; ++r)
        move(done - op.ratio + r, r - op.ratio);
    for (int64_t t = done > 0 ? done : op.open_rows; t < tokens; ++t) move(t, t - done);
}

static void run(const CompressPool& op, Team& team) {
    int64_t dim = op.dim, tokens = int64_t(op.open_rows) + op.n, ratio = op.ratio;
    int64_t groups = tokens / ratio, width = op.overlap ? 2 * dim : dim;
    int64_t skip = op.overlap ? ratio * width : 0;  // the previous group
    int64_t most = op.overlap ? 2 * ratio : ratio;  // entries of a latent
    auto* entries =
        static_cast<PoolEntry*>(reserve(team, size_t(most) * team.threads * sizeof(PoolEntry)));
    if (!entries) return;
#pragma omp parallel for num_threads(team.threads) if (op.n * width > small_work)
    for (int64_t d = 0; d < dim; d += 16) {
        int left = dim - d < 16 ? int(dim - d) : 16;
        PooledStream kv{op.open_kv + skip, op.kv, nullptr, op.open_rows, width, ratio, left};
        PooledStream gate{op.open_gate + skip, op.gate, op.place, op.open_rows, width, ratio, left};
        PoolEntry* begin = entries + most * omp_get_thread_num();
        int64_t own = op.overlap ? dim + d : d;
        for (int64_t g = 0; g < groups; ++g) {
            PoolEntry* end = begin;
            if (op.overlap && (g > 0 || op.previous))
                end = gather(end, kv, gate, (g - 1) * ratio, g * ratio, d);
            end = gather(end, kv, gate, g * ratio, (g + 1) * ratio, own);
            f32x16 latent = pool_entries(begin, end);
            bf16* to = op.latent + g * dim + d;
            left < 16 ? store_tail(to, latent, left) : store(to, latent);
        }
        keep_open(op, kv, gate, d);
        if (op.overlap) keep_open(op, kv, gate, own);
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
