// Source of reference.h: CompressPool.
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {

void run(const CompressPool& op) {
    std::vector<float> kv(op.open_kv, op.open_kv + size_t(op.open_rows) * op.dim);
    std::vector<float> gate(op.open_gate, op.open_gate + size_t(op.open_rows) * op.dim);
    kv.insert(kv.end(), op.kv, op.kv + size_t(op.n) * op.dim);
    gate.insert(gate.end(), op.gate, op.gate + size_t(op.n) * op.dim);
    int32_t tokens = op.open_rows + op.n, groups = tokens / op.ratio;
    for (int32_t g = 0; g < groups; ++g)
        for (int32_t d = 0; d < op.dim; ++d) {
            size_t first = size_t(g) * op.ratio * op.dim + d;
            double max = gate[first], den = 0, sum = 0;
            for (int32_t t = 1; t < op.ratio; ++t)
                max = std::fmax(max, gate[first + size_t(t) * op.dim]);
            for (int32_t t = 0; t < op.ratio; ++t) {
                double w = std::exp(gate[first + size_t(t) * op.dim] - max);
                den += w;
                sum += w * kv[first + size_t(t) * op.dim];
            }
            op.latent[size_t(g) * op.dim + d] = to_bf16(float(sum / den));
        }
    size_t done = size_t(groups) * op.ratio * op.dim;
    for (size_t j = done; j < kv.size(); ++j) {
        op.open_kv[j - done] = kv[j];
        op.open_gate[j - done] = gate[j];
    }
}

}  // namespace sluice::reference
