#include "engine/text/logprobs.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

// The ids of the `count` greatest logits, in order.
std::vector<int32_t> greatest(std::span<const float> logits, size_t count) {
    const auto better = [&](int32_t a, int32_t b) {
        const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
    };
    std::vector<int32_t> ids;  // sorted
    for (size_t i = 0; i < logits.size(); ++i) {
        const auto id = static_cast<int32_t>(i);
        if (ids.size() == count && (count == 0 || !better(id, ids.back()))) continue;
        if (ids.size() == count) ids.pop_back();
        ids.insert(std::upper_bound(ids.begin(), ids.end(), id, better), id);
    }
    return ids;
}

}  // namespace

TokenLogprobs log_probabilities(std::span<const float> logits, int32_t chosen, int32_t best) {
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float logit : logits) sum += std::exp(logit - top);
    const double all = std::log(sum);
    const auto of = [&](int32_t id) {
        return TokenLogprob{id, (logits[static_cast<size_t>(id)] - top) - all};
    };
    TokenLogprobs out{of(chosen), {}};
    for (int32_t id : greatest(logits, static_cast<size_t>(best))) out.best.push_back(of(id));
    return out;
}

}  // namespace sluice
