#include "engine/forward/prefetch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice {

namespace {

// From here on an expert is worth reading unasked in a prompt: most are needed, and one that is not
// costs the time of a drive that had nothing to do.
constexpr double share_min = 0.5;

// The share of a layer's experts that n tokens choose if all experts are equally likely.
double expected_share(const ModelConfig& c, int32_t n) {
    return 1 - std::pow(1 - static_cast<double>(c.top_k) / c.experts, n);
}

void drop_in_vram(int32_t layer, const ExpertTiers& tiers, std::vector<int32_t>& experts) {
    if (!tiers.device) return;
    std::erase_if(experts,
                  [&](int32_t expert) { return tiers.device->resident({layer, expert}); });
}

void read_these(int32_t layer, std::vector<int32_t> experts, const PrefetchLimits& limits,
                ExpertTiers& tiers) {
    if (!limits.overlap) return;
    drop_in_vram(layer, tiers, experts);
    tiers.cache->read_ahead(layer, experts);
}

void read_all(const ModelConfig& c, int32_t layer, double share, const PrefetchLimits& limits,
              ExpertTiers& tiers) {
    if (share < share_min) return;
    std::vector<int32_t> experts(static_cast<size_t>(c.experts));
    std::iota(experts.begin(), experts.end(), 0);
    read_these(layer, std::move(experts), limits, tiers);
}

// The next chunk comes to the same layer, and the cache is smaller than a layer.
bool needs_again(const PassOrder& order, const ExpertTiers& tiers) {
    return order.group_follows && !tiers.cache->keeps_layer();
}

// The next layer's router on this layer's state: the collapsed streams under the next layer's norm,
// which is this layer's input rescaled by the two norm weights. Empty if they are not numbers.
Result<std::vector<int32_t>> guess_next(const GuessInputs& in, const GuessScratch& scratch,
                                        Backend& device) {
    const ModelConfig& c = in.config;
    device.run(RmsNorm{scratch.x, in.collapsed, in.next.ffn_norm, 1, c.hidden, c.norm_eps});
    device.run(Route{.ids = scratch.ids,
                     .weights = scratch.weights,
                     .gate = in.next.gate,
                     .bias = in.next.gate_bias,
                     .x = scratch.x,
                     .n = 1,
                     .k = c.top_k,
                     .scale = c.route_scale,
                     .sum_floor = c.arithmetic.route_sum_floor,
                     .normalise_one = c.arithmetic.route_normalises_one});
    std::vector<int32_t> guesses(static_cast<size_t>(c.top_k));
    auto done = device.download(guesses.data(), scratch.ids, guesses.size() * 4);
    if (!done) return tl::unexpected(done.error());
    if (guesses[0] < 0) guesses.clear();
    return guesses;
}

}  // namespace

void read_ahead_first(const TokenRoutes& known, const ModelConfig& c, int32_t n,
                      const PassOrder& order, const PrefetchLimits& limits, ExpertTiers& tiers) {
    if (!order.prompt) return;
    if (known.known(0)) return read_these(0, known.distinct(0), limits, tiers);
    read_all(c, 0, expected_share(c, n), limits, tiers);
}

void read_ahead(const TokenRoutes& known, const ModelConfig& c, int32_t layer, size_t distinct,
                const PassOrder& order, const PrefetchLimits& limits, ExpertTiers& tiers) {
    if (!order.prompt || needs_again(order, tiers)) return;
    const int32_t next = layer + 1;
    if (next < c.layers && known.known(next)) {
        read_these(next, known.distinct(next), limits, tiers);
    } else if (next < c.layers) {
        read_all(c, next, static_cast<double>(distinct) / c.experts, limits, tiers);
    } else if (!order.next_ids.empty()) {
        read_ahead_first(known.of(order.next_ids), c, static_cast<int32_t>(order.next_ids.size()),
                         order, limits, tiers);
    }
}

void read_again(const ModelConfig& c, int32_t layer, size_t distinct, const PassOrder& order,
                const PrefetchLimits& limits, ExpertTiers& tiers) {
    if (!needs_again(order, tiers)) return;
    read_all(c, layer, static_cast<double>(distinct) / c.experts, limits, tiers);
}

void prefetch_known(const TokenRoutes& known, int32_t layer, const PrefetchLimits& limits,
                    RouteLog& log, ExpertTiers& tiers) {
    for (int32_t next = layer + 1; known.known(next); ++next) {
        std::vector<int32_t> experts = known.routes(next);
        if (log.recording && layer >= 0 && next == layer + 1) log.guesses[layer] = experts;
        drop_in_vram(next, tiers, experts);
        const bool off = !tiers.governor && limits.guesses == 0;
        const auto count = static_cast<uint32_t>(off ? 0 : experts.size());
        tiers.cache->prefetch(next, experts, count, true);
    }
}

bool wants_guesses(const PrefetchLimits& limits, const RouteLog& log, const ExpertTiers& tiers,
                   int32_t next_layer) {
    if (log.recording) return true;
    if (tiers.governor) return tiers.governor->wants_guesses(next_layer);
    return limits.guesses > 0;
}

Result<void> prefetch(const GuessInputs& in, const GuessScratch& scratch,
                      const PrefetchLimits& limits, RouteLog& log, ExpertTiers& tiers,
                      Backend& device) {
    const int32_t next = in.layer + 1;
    const auto routed = guess_next(in, scratch, device);
    if (!routed) return tl::unexpected(routed.error());
    if (log.recording) log.guesses[in.layer] = *routed;
    std::vector<int32_t> guesses;
    tiers.predictor->predict({in.layer, in.chosen, *routed}, in.chosen.size(), guesses);
    drop_in_vram(next, tiers, guesses);
    for (int32_t expert : guesses) {
        if (log.guessed.size() == PrefetchGovernor::guesses_max) break;
        if (!tiers.cache->resident({next, expert})) log.guessed.push_back(expert);
    }
    const uint32_t count = tiers.governor ? tiers.governor->guesses_for(next) : limits.guesses;
    tiers.cache->prefetch(next, guesses, count);
    return {};
}

void judge_guesses(int32_t layer, std::span<const int32_t> chosen, RouteLog& log,
                   ExpertTiers& tiers) {
    uint32_t right = 0;
    for (size_t i = 0; i < log.guessed.size(); ++i) {
        const bool found = std::find(chosen.begin(), chosen.end(), log.guessed[i]) != chosen.end();
        right |= static_cast<uint32_t>(found) << i;
    }
    if (tiers.governor && !log.guessed.empty()) {
        const auto count = static_cast<uint32_t>(log.guessed.size());
        tiers.governor->observed(layer, count, right);
    }
    log.guessed.clear();
}

}  // namespace sluice
