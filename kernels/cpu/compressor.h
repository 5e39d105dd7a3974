// CompressPool: sixteen features of all groups at a time, so that the thread that read the tail of
// the stream may move it to the open group.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// Token t of the pooled stream, from feature d on.
struct PooledStream {
    const float* open;
    const float* rows;
    int64_t open_rows, dim, d;
    int left;  // features from d on, at most 16

    SLUICE_LANE f32x16 fetch(const float* at, int left) {
        return left < 16 ? load_tail(at, left) : load(at);
    }
    const float* at(int64_t t) const {
        return (t < open_rows ? open + t * dim : rows + (t - open_rows) * dim) + d;
    }
    f32x16 operator[](int64_t t) const { return fetch(at(t), left); }
};

static f32x16 pool_group(const PooledStream& kv, const PooledStream& gate, int64_t first,
                         int64_t ratio) {
    f32x16 max = gate[first], den = zero(), sum = zero();
    for (int64_t t = first + 1; t < first + ratio; ++t) max = select(gate[t] > max, gate[t], max);
    for (int64_t t = first; t < first + ratio; ++t) den = den + exp_f32(gate[t] - max);
    for (int64_t t = first; t < first + ratio; ++t)
        sum = sum + exp_f32(gate[t] - max) / den * kv[t];
    return sum;
}

static void run(const CompressPool& op, Team& team) {
    int64_t dim = op.dim, tokens = int64_t(op.open_rows) + op.n;
    int64_t groups = tokens / op.ratio, done = groups * op.ratio;
#pragma omp parallel for num_threads(team.threads) if (op.n * dim > small_work)
    for (int64_t d = 0; d < dim; d += 16) {
        int left = dim - d < 16 ? int(dim - d) : 16;
        PooledStream kv{op.open_kv, op.kv, op.open_rows, dim, d, left};
        PooledStream gate{op.open_gate, op.gate, op.open_rows, dim, d, left};
        for (int64_t g = 0; g < groups; ++g) {
            f32x16 latent = pool_group(kv, gate, g * op.ratio, op.ratio);
            bf16* to = op.latent + g * dim + d;
            left < 16 ? store_tail(to, latent, left) : store(to, latent);
        }
        for (int64_t t = done; t < tokens; ++t) {
            memmove(op.open_kv + (t - done) * dim + d, kv.at(t), left * sizeof(float));
            memmove(op.open_gate + (t - done) * dim + d, gate.at(t), left * sizeof(float));
        }
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
