// Source of reference.h: SparseAttention and WindowStore.
#include <cstring>
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {
namespace {

// Keys of query i in the order of the contract.
std::vector<const bf16*> keys_of(const SparseAttention& op, int32_t i) {
    std::vector<const bf16*> keys;
    int32_t p = op.position + i;
    for (int32_t j = p >= op.window ? p - op.window + 1 : 0; j <= p; ++j)
        keys.push_back(j >= op.position ? op.chunk + size_t(j - op.position) * op.dim
                                        : op.buffer + size_t(j % op.window) * op.dim);
    int32_t rows = op.ratio > 0 ? (p + 1) / op.ratio : op.k;
    for (int32_t j = 0; op.compressed && j < rows; ++j) {
        int32_t row = op.ratio > 0 ? j : op.topk[size_t(i) * op.k + j];
        if (row >= 0) keys.push_back(op.compressed + size_t(row) * op.dim);
    }
    return keys;
}

void attend(const SparseAttention& op, const std::vector<const bf16*>& keys, const bf16* q,
            float sink, bf16* out) {
    std::vector<double> p(keys.size());
    double max = -1e30;
    for (size_t j = 0; j < keys.size(); ++j) {
        p[j] = dot(q, keys[j], op.dim) * op.scale;
        max = std::fmax(max, p[j]);
    }
    double den = std::exp(sink - max);
    std::vector<double> sum(op.dim);
    for (size_t j = 0; j < keys.size(); ++j) {
        p[j] = std::exp(p[j] - max);
        den += p[j];
        double rounded = round_bf16(float(p[j]));
        for (int32_t d = 0; d < op.dim; ++d) sum[d] += rounded * to_float(keys[j][d]);
    }
    for (int32_t d = 0; d < op.dim; ++d)
        out[d] = to_bf16(keys.empty() ? 0.0f : float(sum[d] / den));
}

}  // namespace

void run(const SparseAttention& op) {
    for (int32_t i = 0; i < op.n; ++i) {
        auto keys = keys_of(op, i);
        for (int32_t h = 0; h < op.heads; ++h) {
            size_t at = (size_t(i) * op.heads + h) * op.dim;
            attend(op, keys, op.q + at, op.sink[h], op.out + at);
        }
    }
}

void run(const WindowStore& op) {
    for (int32_t i = op.n > op.window ? op.n - op.window : 0; i < op.n; ++i)
        std::memcpy(op.buffer + size_t((op.position + i) % op.window) * op.dim,
                    op.chunk + size_t(i) * op.dim, sizeof(bf16) * op.dim);
}

}  // namespace sluice::reference
