#include "engine/forward/token_routes.h"

#include <algorithm>

namespace sluice {

std::vector<int32_t> TokenRoutes::routes(int32_t layer) const {
    const auto k = static_cast<size_t>(config_->top_k);
    const int64_t* table = weights_->layers[layer].token_experts;
    std::vector<int32_t> out;
    out.reserve(ids_.size() * k);
    for (int32_t id : ids_) {
        const int64_t* row = table + static_cast<size_t>(id) * k;
        for (size_t i = 0; i < k; ++i) out.push_back(static_cast<int32_t>(row[i]));
    }
    return out;
}

std::vector<int32_t> TokenRoutes::distinct(int32_t layer) const {
    std::vector<int32_t> all = routes(layer);
    std::ranges::sort(all);
    const auto repeated = std::ranges::unique(all);
    all.erase(repeated.begin(), repeated.end());
    return all;
}

}  // namespace sluice
