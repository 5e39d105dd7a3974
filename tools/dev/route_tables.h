// Conversations of a route process, and the figures by which routes are compared: how uneven the
// experts' use is, how much consecutive tokens share, and what caches of any size would hit.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "cache/recency.h"
#include "tools/dev/route_process.h"

namespace sluice {

struct Spoken {
    Conversation conversation;
    int tokens = 0;
    int prompt = 0;  // how many of them are its prompt
};

using LayerRoutes = std::vector<int32_t>;  // [token][top_k]

inline constexpr int pass_tokens = 6;  // tokens at once, in the published figures

inline uint64_t layer_key(uint64_t seed, int layer) {
    return mix(seed) + static_cast<uint64_t>(layer);
}

inline LayerRoutes layer_routes(const RouteShape& shape, const LayerFit& fit,
                                std::span<const Spoken> all, uint64_t key) {
    LayerProcess process(shape, fit, key);
    const auto top_k = static_cast<size_t>(shape.top_k);
    LayerRoutes routes;
    for (size_t i = 0; i < all.size(); ++i) {
        process.begin(all[i].conversation, mix(key) + i);
        for (int token = 0; token < all[i].tokens; ++token) {
            routes.resize(routes.size() + top_k);
            process.next(std::span(routes).last(top_k));
        }
    }
    return routes;
}

// ---- one layer ----------------------------------------------------------------------------------

inline std::vector<double> uses_of(const RouteShape& shape, std::span<const int32_t> routes) {
    std::vector<double> uses(static_cast<size_t>(shape.experts), 0);
    for (int32_t expert : routes) ++uses[static_cast<size_t>(expert)];
    return uses;
}

// % of all uses that the `count` most used have.
inline double share_of_top(std::vector<double> uses, size_t count) {
    std::sort(uses.rbegin(), uses.rend());
    const auto end = uses.begin() + static_cast<std::ptrdiff_t>(count);
    return 100 * std::accumulate(uses.begin(), end, 0.0) /
           std::accumulate(uses.begin(), uses.end(), 0.0);
}

// Calls visit(first token, end) for each pass of up to pass_tokens tokens of one conversation.
template <class Visit>
void for_each_pass(std::span<const Spoken> all, const Visit& visit) {
    size_t begin = 0;
    for (const Spoken& one : all) {
        const size_t end = begin + static_cast<size_t>(one.tokens);
        for (; begin < end; begin = std::min<size_t>(end, begin + pass_tokens)) {
            visit(begin, std::min<size_t>(end, begin + pass_tokens));
        }
    }
}

// The different experts of the tokens [begin, end) in ascending order.
inline void experts_of(std::span<const int32_t> routes, int top_k, size_t begin, size_t end,
                       std::vector<int32_t>& out) {
    const auto wide = static_cast<size_t>(top_k);
    const auto part = routes.subspan(begin * wide, (end - begin) * wide);
    out.assign(part.begin(), part.end());
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
}

inline LayerFigures figures_of(const RouteShape& shape, std::span<const int32_t> routes,
                               std::span<const Spoken> all) {
    const auto uses = uses_of(shape, routes);
    const auto part = [&](double share) {
        return share_of_top(uses, static_cast<size_t>(share * shape.experts));
    };
    double sum = 0, passes = 0;
    std::vector<int32_t> experts;
    for_each_pass(all, [&](size_t begin, size_t end) {
        if (end - begin < pass_tokens) return;
        experts_of(routes, shape.top_k, begin, end, experts);
        sum += static_cast<double>(experts.size());
        ++passes;
    });
    return {part(0.10), part(0.25), part(0.50), sum / passes};
}

// Lets the layer's routes in `all` have the wanted figures.
inline LayerFit fit_layer(const RouteShape& shape, const LayerFigures& wanted,
                          std::span<const Spoken> all, uint64_t key) {
    // A layer whose tokens differ more has conversations that differ less.
    LayerFit fit{wanted.top10 / 100 + 0.07, wanted.top25 / 100 + 0.05, wanted.top50 / 100 + 0.01,
                 std::clamp((30 - wanted.six) / 20, 0.1, 0.9), (35 - wanted.six) / 12.5};
    for (int round = 0; round < 6; ++round) {
        const auto got = figures_of(shape, layer_routes(shape, fit, all, key), all);
        const auto step = [](double by, double from) { return 0.9 * (by - from) / 100; };
        fit.top10 = std::clamp(fit.top10 + step(wanted.top10, got.top10), 0.12, 0.9);
        fit.top25 += step(wanted.top25, got.top25);
        fit.top25 = std::clamp(fit.top25, fit.top10 * 1.1, 0.95);
        fit.top50 += step(wanted.top50, got.top50);
        fit.top50 = std::clamp(fit.top50, fit.top25 * 1.05, 0.995);
        fit.reuse = std::clamp(fit.reuse + (got.six - wanted.six) / 28, 0.0, 0.98);
    }
    return fit;
}

// ---- all layers ---------------------------------------------------------------------------------

// How often each distance between two uses occurs: a cache that evicts the least recently used
// expert hits if it holds as many experts as were used since, the expert itself included.
class UseDistances {
 public:
    explicit UseDistances(uint32_t experts) : ages_(experts), seen_(experts), times_(experts + 1) {}
    void use(uint32_t expert) {
        ++uses_;
        if (seen_[expert]) {
            ++times_[ages_.count() - ages_.rank(expert)];
            ages_.remove(expert);
        }
        seen_[expert] = true;
        ages_.push_newest(expert);
    }
    double hits(size_t slots) const {  // in %
        const auto end = times_.begin() + static_cast<std::ptrdiff_t>(slots) + 1;
        return 100 * std::accumulate(times_.begin(), end, 0.0) / uses_;
    }

 private:
    AgeRanks ages_;
    std::vector<bool> seen_;
    std::vector<double> times_;
    double uses_ = 0;
};

// All layers of one recording.
struct RouteTable {
    RouteShape shape;
    std::vector<Spoken> all;
    std::vector<LayerRoutes> layers;

    size_t tokens() const { return layers.front().size() / static_cast<size_t>(shape.top_k); }
    uint32_t number(size_t layer, int32_t expert) const {
        return static_cast<uint32_t>(layer * static_cast<size_t>(shape.experts)) +
               static_cast<uint32_t>(expert);
    }
    uint32_t experts() const { return number(layers.size(), 0); }
    // Layer by layer, in order of tokens or of passes.
    UseDistances distances(bool by_pass) const {
        UseDistances out(experts());
        const auto top_k = static_cast<size_t>(shape.top_k);
        std::vector<int32_t> chosen;
        const auto visit = [&](size_t begin, size_t end) {
            for (size_t layer = 0; layer < layers.size(); ++layer) {
                experts_of(layers[layer], shape.top_k, begin, end, chosen);
                for (int32_t expert : chosen) out.use(number(layer, expert));
            }
        };
        if (by_pass) {
            for_each_pass(all, visit);
        } else {
            for (size_t token = 0; token * top_k < layers[0].size(); ++token) {
                visit(token, token + 1);
            }
        }
        return out;
    }
    // Hits in % of the best set of `slots` experts that never changes.
    double static_hits(size_t slots) const {
        std::vector<double> uses;
        for (const auto& layer : layers) {
            const auto one = uses_of(shape, layer);
            uses.insert(uses.end(), one.begin(), one.end());
        }
        return share_of_top(std::move(uses), slots);
    }
};

// Two topics' most used quarters of a layer's experts: what they have in common.
struct Overlap {
    double jaccard = 0;
    double cover = 0;  // % of the second topic's slots that the first one's quarter takes
};

inline Overlap overlap_of(const RouteTable& table, size_t layer) {
    std::array<LayerRoutes, 2> of_topic;
    const auto top_k = static_cast<size_t>(table.shape.top_k);
    auto at = table.layers[layer].begin();
    for (const Spoken& one : table.all) {
        const auto end = at + static_cast<std::ptrdiff_t>(static_cast<size_t>(one.tokens) * top_k);
        auto& out = of_topic[static_cast<size_t>(one.conversation.topic % 2)];
        out.insert(out.end(), at, end);
        at = end;
    }
    const size_t quarter = static_cast<size_t>(table.shape.experts) / 4;
    std::array<std::vector<bool>, 2> most;
    std::array<std::vector<double>, 2> uses;
    for (size_t topic = 0; topic < 2; ++topic) {
        uses[topic] = uses_of(table.shape, of_topic[topic]);
        std::vector<size_t> order(uses[topic].size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return uses[topic][a] > uses[topic][b]; });
        most[topic].assign(order.size(), false);
        for (size_t i = 0; i < quarter; ++i) most[topic][order[i]] = true;
    }
    double both = 0, covered = 0, sum = 0;
    for (size_t i = 0; i < uses[0].size(); ++i) {
        both += most[0][i] && most[1][i];
        sum += uses[1][i];
        if (most[0][i]) covered += uses[1][i];
    }
    return {both / (2 * static_cast<double>(quarter) - both), 100 * covered / sum};
}

}  // namespace sluice
