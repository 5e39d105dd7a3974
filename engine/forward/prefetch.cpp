// Experts that are read before their layer's router chose. A prompt needs nearly all of a layer's:
// they are read in file order while the layer before is computed. One token needs few: the next
// layer's router, on this layer's state, guesses which.
#include <algorithm>
#include <cmath>

#include "engine/forward/forward.h"

namespace sluice {

namespace {

// From here on an expert of a sweep is worth reading unasked: most are needed, and what is not
// costs the time of a drive that had nothing to do.
constexpr double share_min = 0.5;

// Of the experts of a layer, those that n tokens choose if all are alike.
double expected_share(const ModelConfig& c, int32_t n) {
    return 1 - std::pow(1 - static_cast<double>(c.top_k) / c.experts, n);
}

void read_all(Pass& pass, int32_t layer, double share) {
    Runtime& rt = pass.rt;
    if (share < share_min || rt.options.overlap == Overlap::none) return;
    std::vector<int32_t> experts;
    for (int32_t expert = 0; expert < rt.config.experts; expert++) {
        if (rt.device_experts && rt.device_experts->resident({layer, expert})) continue;
        experts.push_back(expert);
    }
    rt.cache->read_ahead(layer, experts);
}

// The next chunk comes to the same layer, and the cache is smaller than that.
bool needs_again(const Pass& pass) {
    return pass.next && !pass.rt.cache->keeps_layer();
}

bool wants_guesses(const Pass& pass, int32_t layer) {
    const Runtime& rt = pass.rt;
    if (pass.sweep || pass.n > 1 || layer + 1 == rt.config.layers) return false;
    if (rt.recorder) return true;
    if (rt.governor) return rt.governor->wants_guesses(layer + 1);
    return rt.options.prefetch.value_or(0) > 0;
}

// The next layer's router on this layer's state: the collapsed streams under the next layer's norm,
// which is this layer's input rescaled by the two norm weights. None if they are no numbers.
Result<std::vector<int32_t>> guess_next(Pass& pass, int32_t layer) {
    const ModelConfig& c = pass.rt.config;
    const LayerWeights& next = pass.rt.weights.layers[layer + 1];
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    backend.run(RmsNorm{ws.y, ws.collapsed, next.ffn_norm, 1, c.hidden, c.norm_eps});
    backend.run(Route{.ids = ws.guess_ids,
                      .weights = ws.guess_weights,
                      .gate = next.gate,
                      .bias = next.gate_bias,
                      .x = ws.y,
                      .n = 1,
                      .k = c.top_k,
                      .scale = c.route_scale});
    std::vector<int32_t> guesses(static_cast<size_t>(c.top_k));
    auto done = backend.download(guesses.data(), ws.guess_ids, guesses.size() * 4);
    if (!done) return tl::unexpected(done.error());
    if (guesses[0] < 0) guesses.clear();
    return guesses;
}

}  // namespace

void read_ahead_first(Pass& pass) {
    if (pass.sweep) read_all(pass, 0, expected_share(pass.rt.config, pass.n));
}

void read_ahead(Pass& pass, int32_t layer, size_t distinct) {
    if (!pass.sweep || needs_again(pass)) return;
    const ModelConfig& c = pass.rt.config;
    if (layer + 1 < c.layers) {
        read_all(pass, layer + 1, static_cast<double>(distinct) / c.experts);
    } else if (pass.next_n > 0) {
        read_all(pass, 0, expected_share(c, pass.next_n));
    }
}

void read_again(Pass& pass, int32_t layer, size_t distinct) {
    if (!needs_again(pass)) return;
    read_all(pass, layer, static_cast<double>(distinct) / pass.rt.config.experts);
}

// After the demand, so that the drive has its work before the guesses are computed.
Result<void> prefetch(Pass& pass, int32_t layer, std::span<const int32_t> chosen) {
    Runtime& rt = pass.rt;
    if (!wants_guesses(pass, layer)) return {};
    const auto routed = guess_next(pass, layer);
    if (!routed) return tl::unexpected(routed.error());
    if (rt.recorder) pass.routes.guesses[layer] = *routed;
    std::vector<int32_t> guesses;
    rt.predictor->predict({layer, chosen, *routed}, chosen.size(), guesses);
    std::erase_if(guesses, [&](int32_t expert) {
        return rt.device_experts && rt.device_experts->resident({layer + 1, expert});
    });
    for (int32_t expert : guesses) {
        if (pass.guessed.size() == PrefetchGovernor::guesses_max) break;
        if (!rt.cache->resident({layer + 1, expert})) pass.guessed.push_back(expert);
    }
    const uint32_t count =
        rt.governor ? rt.governor->guesses_for(layer + 1) : rt.options.prefetch.value_or(0);
    rt.cache->prefetch(layer + 1, guesses, count);
    return {};
}

void judge_guesses(Pass& pass, int32_t layer, std::span<const int32_t> chosen) {
    uint32_t right = 0;
    for (size_t i = 0; i < pass.guessed.size(); i++) {
        const bool found = std::find(chosen.begin(), chosen.end(), pass.guessed[i]) != chosen.end();
        right |= static_cast<uint32_t>(found) << i;
    }
    if (pass.rt.governor && !pass.guessed.empty()) {
        const auto count = static_cast<uint32_t>(pass.guessed.size());
        pass.rt.governor->observed(layer, count, right);
    }
    pass.guessed.clear();
}

}  // namespace sluice
