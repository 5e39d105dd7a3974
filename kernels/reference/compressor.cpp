// Source of reference.h: CompressPool.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {
namespace {

// What a latent pools for one feature.
struct Entry {
    float kv, gate;
};

float pool(const std::vector<Entry>& entries) {
    double max = entries[0].gate, den = 0, sum = 0;
    for (const Entry& e : entries) max = std::fmax(max, e.gate);
    for (const Entry& e : entries) {
        double w = std::exp(e.gate - max);
        den += w;
        sum += w * e.kv;
    }
    return float(sum / den);
}

}  // namespace

void run(const CompressPool& op) {
    int32_t width = op.overlap ? 2 * op.dim : op.dim, before = op.overlap ? op.ratio : 0;
    // Rows of the stream: the previous group (`before` rows), the open tokens, the new ones.
    size_t kept = size_t(before + op.open_rows) * width;
    std::vector<float> kv(op.open_kv, op.open_kv + kept), gate(op.open_gate, op.open_gate + kept);
    for (int32_t i = 0; i < op.n; ++i)
        for (int32_t c = 0; c < width; ++c) {
            size_t at = size_t(i) * width + c;
            size_t place = size_t((op.open_rows + i) % op.ratio) * width + c;
            kv.push_back(op.kv[at]);
            gate.push_back(op.place ? op.gate[at] + op.place[place] : op.gate[at]);
        }
    int32_t groups = (op.open_rows + op.n) / op.ratio;
    for (int32_t g = 0; g < groups; ++g)
        for (int32_t d = 0; d < op.dim; ++d) {
            std::vector<Entry> entries;
            int32_t first = before + g * op.ratio;
            bool both = op.overlap && (g > 0 || op.previous);
            for (int32_t row = both ? first - op.ratio : first; row < first + op.ratio; ++row) {
                size_t at = size_t(row) * width + (op.overlap && row >= first ? op.dim + d : d);
                entries.push_back({kv[at], gate[at]});
            }
            op.latent[size_t(g) * op.dim + d] = to_bf16(pool(entries));
        }
    // With an overlap, the last complete group stays as the previous one.
    size_t done = size_t(groups) * op.ratio * width;
    std::copy(kv.begin() + std::ptrdiff_t(done), kv.end(), op.open_kv);
    std::copy(gate.begin() + std::ptrdiff_t(done), gate.end(), op.open_gate);
}

}  // namespace sluice::reference
