// Source of reference.h: Route.
#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {

void run(const Route& op) {
    int32_t experts = op.gate.rows, dim = op.gate.cols;
    std::vector<float> score(experts), biased(experts);
    std::vector<int32_t> order;
    for (int32_t i = 0; i < op.n; ++i) {
        bool nan = false;
        order.resize(experts);
        std::iota(order.begin(), order.end(), 0);
        for (int32_t e = 0; e < experts; ++e) {
            float z = float(dot(op.gate.data + size_t(e) * dim, op.x + size_t(i) * dim, dim));
            score[e] = std::sqrt(softplus_f32(z));
            biased[e] = op.given ? score[e] : score[e] + op.bias[e];
            nan = nan || std::isnan(biased[e]);
        }
        int32_t* ids = op.ids + size_t(i) * op.k;
        if (!nan && !op.given)
            std::stable_sort(order.begin(), order.end(),
                             [&](int32_t a, int32_t b) { return biased[a] > biased[b]; });
        if (op.given) order.assign(ids, ids + op.k);
        float sum = 0;
        for (int32_t j = 0; j < op.k; ++j) sum = sum + score[order[j]];
        for (int32_t j = 0; j < op.k; ++j) {
            float w = score[order[j]];
            if (op.k > 1 || op.normalise_one) w = w / (sum + op.sum_floor);
            ids[j] = nan ? -1 : order[j];
            op.weights[size_t(i) * op.k + j] = nan ? nan_f32 : w * op.scale;
        }
    }
}

}  // namespace sluice::reference
