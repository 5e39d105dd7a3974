#include "engine/text/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "io/format.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr double penalty_max = 2, bias_max = 100;
constexpr size_t first_sorted = 64, sorted_growth = 8;

std::string number(double value) {
    return formatted("{:g}", value);
}

tl::unexpected<Error> out_of_range(std::string_view field, double value, std::string_view range) {
    return fail(Code::usage, cat(field, " ", number(value), " is out of range: it ", range));
}

bool in_vocabulary(int32_t id, size_t size) {
    return id >= 0 && static_cast<size_t>(id) < size;
}

tl::unexpected<Error> outside_vocabulary(int32_t id, size_t size) {
    return fail(Code::usage, cat("token id ", id, " is outside the vocabulary of ", size));
}

// splitmix64: expands the seed to the generator's state.
uint64_t spread(uint64_t& seed) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

Result<void> check_shifts(const SamplerOptions& options) {
    const auto outside = [](double value, double limit) { return !(std::abs(value) <= limit); };
    if (outside(options.presence_penalty, penalty_max))
        return out_of_range("presence_penalty", options.presence_penalty, "must be -2 to 2");
    if (outside(options.frequency_penalty, penalty_max))
        return out_of_range("frequency_penalty", options.frequency_penalty, "must be -2 to 2");
    if (options.logit_bias.size() > logit_bias_max)
        return fail(Code::usage, cat("logit_bias has ", options.logit_bias.size(),
                                     " entries; at most ", logit_bias_max, " are supported"));
    for (const LogitBias& entry : options.logit_bias) {
        if (outside(entry.bias, bias_max))
            return out_of_range(cat("logit_bias of id ", entry.id), entry.bias,
                                "must be -100 to 100");
    }
    return {};
}

}  // namespace

Result<void> check(const SamplerOptions& options) {
    // The conditions are written so that NaN fails them.
    constexpr double huge = std::numeric_limits<double>::max();
    if (!(options.temperature >= 0 && options.temperature <= huge))
        return out_of_range("temperature", options.temperature, "must be 0 (greedy) or more");
    if (options.top_k < 0)
        return out_of_range("top_k", options.top_k, "must be 0 (all) to the vocabulary size");
    if (!(options.top_p > 0 && options.top_p <= 1))
        return out_of_range("top_p", options.top_p, "must be above 0 and at most 1");
    if (!(options.min_p >= 0 && options.min_p < 1))
        return out_of_range("min_p", options.min_p, "must be 0 or more and below 1");
    if (!(options.repetition_penalty > 0 && options.repetition_penalty <= huge))
        return out_of_range("repetition_penalty", options.repetition_penalty, "must be above 0");
    return check_shifts(options);
}

bool SamplerOptions::plain_greedy() const {
    return temperature == 0 && repetition_penalty == 1 && top_k == 0 && presence_penalty == 0 &&
           frequency_penalty == 0 && logit_bias.empty();
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
    uint64_t seed = options.seed;
    for (uint64_t& word : state_) word = spread(seed);
}

// xoshiro256**; 53 bits, in [0, 1).
double Sampler::draw() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return static_cast<double>(result >> 11) * 0x1p-53;
}

// scores_ = logits after penalties and biases.
Result<void> Sampler::score(std::span<const float> logits, const SamplerContext& context) {
    if (logits.empty()) return fail(Code::usage, "no logits to sample from");
    if (static_cast<size_t>(options_.top_k) > logits.size())
        return fail(Code::usage, cat("--top-k ", options_.top_k, ": the vocabulary has ",
                                     logits.size(), " tokens; lower it, or give 0 for all"));
    for (size_t id = 0; id < logits.size(); ++id) {
        if (!std::isfinite(logits[id]))
            return fail(Code::numerical,
                        cat("numerical failure: the logit of token id ", id, " at position ",
                            context.tokens.size(), " is ", number(logits[id])));
    }
    scores_.assign(logits.begin(), logits.end());
    if (auto done = penalise_repetition(logits, context.tokens); !done) return done;
    return shift(context);
}

// Applied once per id, however often it occurs.
Result<void> Sampler::penalise_repetition(std::span<const float> logits,
                                          std::span<const int32_t> tokens) {
    if (options_.repetition_penalty == 1) return {};
    for (int32_t id : tokens) {
        if (!in_vocabulary(id, logits.size())) return outside_vocabulary(id, logits.size());
        constexpr double huge = std::numeric_limits<double>::max();
        const double logit = logits[static_cast<size_t>(id)];
        const double scored =
            logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
        scores_[static_cast<size_t>(id)] = std::clamp(scored, -huge, huge);
    }
    return {};
}

// The additive penalties and the biases.
Result<void> Sampler::shift(const SamplerContext& context) {
    const size_t size = scores_.size();
    if (options_.presence_penalty != 0 || options_.frequency_penalty != 0) {
        std::vector<int32_t> ids(
            context.tokens.begin() + static_cast<std::ptrdiff_t>(context.prompt),
            context.tokens.end());
        std::sort(ids.begin(), ids.end());
        for (size_t i = 0; i < ids.size(); ++i) {
            if (!in_vocabulary(ids[i], size)) return outside_vocabulary(ids[i], size);
            const bool first = i == 0 || ids[i] != ids[i - 1];
            scores_[static_cast<size_t>(ids[i])] -=
                options_.frequency_penalty + (first ? options_.presence_penalty : 0);
        }
    }
    for (const LogitBias& entry : options_.logit_bias) {
        if (!in_vocabulary(entry.id, size)) return outside_vocabulary(entry.id, size);
        scores_[static_cast<size_t>(entry.id)] += entry.bias;
    }
    return {};
}

// Makes the first `count` ids of order_ the best ones, sorted: higher score, then lower id.
void Sampler::sort_to(size_t count) {
    if (count <= sorted_) return;
    const auto place = [&](size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
    const auto better = [&](int32_t a, int32_t b) {
        const double x = scores_[static_cast<size_t>(a)], y = scores_[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
    };
    std::nth_element(place(sorted_), place(count), order_.end(), better);
    std::sort(place(sorted_), place(count), better);
    sorted_ = count;
}

// Probability of an id divided by that of the best one.
double Sampler::weight(int32_t id, double best) const {
    return std::exp((scores_[static_cast<size_t>(id)] - best) / options_.temperature);
}

// The first of equals; -1: none is allowed.
int32_t Sampler::best(const TokenMask* allowed) const {
    if (allowed == nullptr)
        return static_cast<int32_t>(std::max_element(scores_.begin(), scores_.end()) -
                                    scores_.begin());
    int32_t out = -1;
    allowed->each([&](int32_t id) {
        const auto at = static_cast<size_t>(id);
        if (at >= scores_.size()) return;
        if (out < 0 || scores_[at] > scores_[static_cast<size_t>(out)]) out = id;
    });
    return out;
}

Result<int32_t> Sampler::choose(std::span<const float> logits, const SamplerContext& context) {
    if (auto scored = score(logits, context); !scored)
        return tl::unexpected(std::move(scored).error());
    const double random = draw();  // one per step, used or not
    const int32_t first = best(context.allowed);
    if (first < 0) return fail(Code::usage, "no token is allowed to follow");
    if (options_.temperature == 0) return first;
    const double top = scores_[static_cast<size_t>(first)];

    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), 0);
    if (context.allowed != nullptr)
        std::erase_if(order_, [&](int32_t id) { return !context.allowed->has(id); });
    sorted_ = 0;
    size_t limit = order_.size();
    if (options_.top_k > 0) {
        limit = std::min(limit, static_cast<size_t>(options_.top_k));
        sort_to(limit);
    }
    double total = 0;
    for (size_t i = 0; i < limit; ++i) total += weight(order_[i], top);

    // The prefix that top_p and min_p keep: at least the best token.
    double kept = 0;
    size_t count = 0;
    while (count < limit) {
        grow(count, limit);
        const double next = weight(order_[count], top);
        if (count > 0 && (next < options_.min_p || next == 0)) break;
        kept += next;
        ++count;
        if (kept >= options_.top_p * total) break;
    }
    double left = random * kept;
    for (size_t i = 0; i + 1 < count; ++i) {
        left -= weight(order_[i], top);
        if (left < 0) return order_[i];
    }
    return order_[count - 1];
}

// Sorts in growing steps: most distributions need only the first.
void Sampler::grow(size_t needed, size_t limit) {
    if (needed >= sorted_) sort_to(std::min(limit, std::max(first_sorted, needed * sorted_growth)));
}

}  // namespace sluice
