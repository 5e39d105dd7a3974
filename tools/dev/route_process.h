// A random process whose routes have the structure of those of the released DeepSeek-V4.1-Flash
// (top 6 of 384, 40 layers), as far as measurements of them are published.
//
// Each layer is independent of the others. A slot of a token is, with a probability that is the
// layer's own, an expert of an earlier token of the conversation, d tokens back with a probability
// proportional to d^-lag_power; otherwise it is drawn from what the conversation likes:
//
//   popularity of the layer's experts   long-tailed, by rank
//   x how much each topic likes them    of all topics' weights exp(normal), nearly independent
//   x a taste of the conversation       exp(normal), kept for a passage
//
// Two kinds of text then use mostly different experts, a conversation uses some of them much more
// than others do, and a token uses some of what the last ones used. Popularity and the share of
// reused slots are fitted per layer (fit_layer) so that all conversations together reproduce the
// layer's published figures. The same seed gives the same routes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/dev/random.h"

namespace sluice {

// What is published of one layer.
struct LayerFigures {
    double top10, top25, top50;  // % of all slots that its most used 10, 25, 50 % of experts take
    double six;                  // different experts of six consecutive tokens
};

inline constexpr LayerFigures published_layers[] = {
    {28.5, 53.0, 80.0, 30.2}, {37.0, 60.4, 83.8, 25.6}, {43.3, 67.5, 89.6, 23.8},
    {48.6, 70.5, 89.9, 21.9}, {43.3, 67.0, 88.3, 21.9}, {43.7, 66.6, 87.0, 21.3},
    {49.1, 72.2, 90.1, 19.7}, {50.9, 73.0, 90.6, 19.5}, {42.9, 67.2, 88.0, 21.7},
    {47.4, 70.0, 89.2, 20.4}, {44.7, 68.4, 87.9, 21.2}, {41.7, 65.6, 87.3, 21.7},
    {38.0, 64.4, 86.3, 22.9}, {39.7, 64.4, 86.8, 23.8}, {44.6, 69.4, 88.8, 21.9},
    {34.9, 59.5, 83.8, 26.4}, {48.3, 73.9, 91.0, 20.3}, {45.2, 69.5, 88.3, 22.2},
    {47.9, 72.8, 90.1, 21.0}, {35.1, 61.7, 85.8, 27.7}, {43.5, 69.1, 89.3, 20.8},
    {45.6, 68.3, 88.6, 20.7}, {47.8, 69.3, 89.1, 20.4}, {40.6, 63.8, 86.1, 24.9},
    {45.0, 67.5, 87.6, 20.4}, {50.8, 72.3, 89.8, 17.9}, {47.6, 69.6, 88.1, 19.5},
    {43.9, 65.7, 85.5, 21.3}, {46.6, 70.7, 88.7, 19.5}, {45.2, 67.8, 88.2, 21.1},
    {46.4, 68.4, 87.5, 21.7}, {38.2, 62.1, 85.6, 23.7}, {42.9, 66.8, 87.9, 22.9},
    {42.4, 65.6, 86.4, 22.9}, {43.4, 66.7, 87.4, 23.7}, {38.4, 62.6, 86.1, 25.2},
    {38.4, 63.0, 86.4, 25.2}, {39.5, 62.5, 84.9, 25.3}, {39.0, 63.0, 87.0, 26.0},
    {34.6, 59.3, 84.6, 27.6},
};
inline constexpr int published_layer_count = 40;

struct RouteShape {
    int experts = 384;
    int top_k = 6;
    int topics = 2;
    // Fitted, once for all layers, to the published hit curves of caches.
    double lag_power = 1.8;
    double taste = 0.95;        // of a conversation, standard deviation of the logarithm
    double topic_spread = 2.9;  // the same of topics, for the most popular experts
};

// How a conversation goes on.
struct Conversation {
    int topic = 0;
    double passage = 0;  // mean tokens after which the taste changes; 0: never
    double aside = 0;    // probability that a passage is about another topic
};

// What fit_layer() finds.
struct LayerFit {
    double top10, top25, top50;  // shares before conversations make them uneven
    double reuse;                // probability that a slot is reused
    double taste;                // relative to RouteShape::taste
};

// Share of the slots that the fraction x of the experts takes, most popular first.
inline double share_of(const LayerFit& fit, double x) {
    const auto between = [x](double x0, double y0, double x1, double y1) {
        return y0 * std::pow(x / x0, std::log(y1 / y0) / std::log(x1 / x0));
    };
    if (x <= 0.1) {
        const double power = 0.93 * std::log(fit.top25 / fit.top10) / std::log(2.5);
        return fit.top10 * std::pow(x / 0.1, std::max(0.3, power));
    }
    if (x <= 0.25) return between(0.1, fit.top10, 0.25, fit.top25);
    if (x <= 0.5) return between(0.25, fit.top25, 0.5, fit.top50);
    return 1 - (1 - fit.top50) * std::pow((1 - x) / 0.5, 1.3);
}

class LayerProcess {
 public:
    // `key`: of the layer; decides which experts are popular, and with whom.
    LayerProcess(const RouteShape& shape, const LayerFit& fit, uint64_t key)
        : shape_(shape), fit_(fit), random_(key), likes_(static_cast<size_t>(shape.experts)) {
        const auto experts = static_cast<size_t>(shape.experts);
        std::vector<size_t> order(experts);
        for (size_t i = 0; i < experts; ++i) {
            const size_t at = random_.below(static_cast<uint32_t>(i) + 1);
            order[i] = order[at];
            order[at] = i;
        }
        topics_.assign(static_cast<size_t>(shape.topics), std::vector<double>(experts));
        double below = 0;
        for (size_t rank = 0; rank < experts; ++rank) {
            const double x = static_cast<double>(rank) / static_cast<double>(experts);
            const double share = share_of(fit, x + 1 / static_cast<double>(experts));
            spread(order[rank], std::max(1e-7, share - below), std::pow(1 - x, 0.25));
            below = share;
        }
        for (auto& topic : topics_) {
            double sum = 0;
            for (double weight : topic) sum += weight;
            for (double& weight : topic) weight /= sum;
        }
    }

    // `key`: of the conversation.
    void begin(const Conversation& conversation, uint64_t key) {
        conversation_ = conversation;
        random_ = Random(key);
        past_.clear();
        passage_left_ = 0;
    }

    // The next token's experts; chosen.size() is RouteShape::top_k.
    void next(std::span<int32_t> chosen) {
        if (past_.empty() || (conversation_.passage > 0 && --passage_left_ <= 0)) new_passage();
        for (size_t have = 0; have < chosen.size();) {
            const int32_t expert = draw();
            const auto end = chosen.begin() + static_cast<std::ptrdiff_t>(have);
            if (std::find(chosen.begin(), end, expert) == end) chosen[have++] = expert;
        }
        past_.insert(past_.end(), chosen.begin(), chosen.end());
        if (lags_.size() <= tokens()) {
            const double back = static_cast<double>(lags_.size());
            lags_.push_back(lags_.back() + std::pow(back, -shape_.lag_power));
        }
    }

 private:
    size_t tokens() const { return past_.size() / static_cast<size_t>(shape_.top_k); }
    // Divides an expert's popularity between the topics.
    void spread(size_t expert, double popularity, double unevenness) {
        double sum = 0;
        for (auto& topic : topics_) {
            topic[expert] = std::exp(shape_.topic_spread * unevenness * random_.normal());
            sum += topic[expert];
        }
        for (auto& topic : topics_) topic[expert] *= popularity / sum;
    }
    void new_passage() {
        passage_left_ = 1 - conversation_.passage * std::log(1 - random_.uniform());
        auto topic = static_cast<size_t>(conversation_.topic);
        if (topics_.size() > 1 && random_.uniform() < conversation_.aside) {
            topic += 1 + random_.below(static_cast<uint32_t>(topics_.size()) - 1);
            topic %= topics_.size();
        }
        double sum = 0;
        for (size_t i = 0; i < likes_.size(); ++i) {
            sum += topics_[topic][i] * std::exp(shape_.taste * fit_.taste * random_.normal());
            likes_[i] = sum;
        }
    }
    int32_t draw() {
        const auto top_k = static_cast<size_t>(shape_.top_k);
        if (!past_.empty() && random_.uniform() < fit_.reuse) {
            const size_t back = place(lags_, tokens() + 1);
            const size_t slot = random_.below(static_cast<uint32_t>(top_k));
            return past_[(tokens() - back) * top_k + slot];
        }
        return static_cast<int32_t>(place(likes_, likes_.size()));
    }
    // A random index of `sums`, whose steps are proportional to the probabilities.
    size_t place(const std::vector<double>& sums, size_t count) {
        const auto end = sums.begin() + static_cast<std::ptrdiff_t>(count);
        const auto at = std::upper_bound(sums.begin(), end - 1, random_.uniform() * *(end - 1));
        return static_cast<size_t>(at - sums.begin());
    }

    RouteShape shape_;
    LayerFit fit_;
    Random random_;
    std::vector<std::vector<double>> topics_;  // [topic][expert]
    Conversation conversation_;
    double passage_left_ = 0;
    std::vector<double> likes_;       // [experts]: sums of the passage's probabilities
    std::vector<double> lags_ = {0};  // sums of the probabilities of 1, 2, ... tokens back
    std::vector<int32_t> past_;       // [token][top_k] of the conversation
};

}  // namespace sluice
