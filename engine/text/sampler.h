// Picks the next token from logits. The result depends only on logits, options, seed and step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/text/token_mask.h"
#include "io/error.h"

namespace sluice {

// Added to the logit of an id.
struct LogitBias {
    int32_t id;
    double bias;
};

struct SamplerOptions {
    double temperature = 1.0;  // 0: greedy, lowest id among equals
    int32_t top_k = 0;         // 0: all
    double top_p = 0.95;
    double min_p = 0.0;
    double repetition_penalty = 1.0;
    // OpenAI's: subtracted from the logit of an id that was generated before, the second one once
    // for each time. Tokens of the prompt do not count.
    double presence_penalty = 0, frequency_penalty = 0;
    std::vector<LogitBias> logit_bias;
    uint64_t seed = 0;

    // Whether the choice is the id with the greatest logit, which needs no sampler.
    bool plain_greedy() const;
};
inline constexpr size_t logit_bias_max = 1024;  // entries
// usage, naming the field, for values out of range: temperature >= 0, top_k >= 0, top_p (0, 1],
// min_p [0, 1), repetition_penalty > 0, the other penalties -2 to 2, biases -100 to 100; NaN and
// infinity are refused. choose() refuses a top_k above the vocabulary size and a bias outside it.
Result<void> check(const SamplerOptions& options);

// What choose() needs to know of an answer.
struct SamplerContext {
    std::span<const int32_t> tokens;     // the prompt and the answer so far
    size_t prompt = 0;                   // how many of them are the prompt
    const TokenMask* allowed = nullptr;  // the other ids have no probability
};

// Applies the penalties (repetition first), the biases, the mask, temperature, top_k, top_p and
// min_p (relative to the best token's probability), in this order; ties go to the lower id. Each
// call takes one random number, so step n of a seed draws the same number whatever came before.
// Allocates in the first call only, unless presence or frequency are penalised.
class Sampler {
 public:
    explicit Sampler(const SamplerOptions& options);  // requires check(options)
    // numerical, naming position and token id: a logit that is not finite. usage: a mask that
    // allows none of the logits' ids.
    Result<int32_t> choose(std::span<const float> logits, const SamplerContext& context);
    // `recent`: the tokens so far, all of the prompt.
    Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> recent) {
        return choose(logits, {recent, recent.size()});
    }

 private:
    double draw();
    Result<void> score(std::span<const float> logits, const SamplerContext& context);
    Result<void> penalise_repetition(std::span<const float> logits,
                                     std::span<const int32_t> tokens);
    Result<void> shift(const SamplerContext& context);
    int32_t best(const TokenMask* allowed) const;
    void sort_to(size_t count);
    void grow(size_t needed, size_t limit);
    double weight(int32_t id, double best) const;

    SamplerOptions options_;
    uint64_t state_[4];
    std::vector<double> scores_;
    std::vector<int32_t> order_;  // ids; the first sorted_ are the best, in order
    size_t sorted_ = 0;
};

}  // namespace sluice
