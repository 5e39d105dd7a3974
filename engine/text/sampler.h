// Picks the next token from logits. The result depends only on logits, options, seed and step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/error.h"

namespace sluice {

struct SamplerOptions {
    double temperature = 1.0;  // 0: greedy, lowest id among equals
    int32_t top_k = 0;         // 0: all
    double top_p = 0.95;
    double min_p = 0.0;
    double repetition_penalty = 1.0;
    uint64_t seed = 0;
};
// usage, naming the field, for values out of range: temperature >= 0, top_k >= 0, top_p (0, 1],
// min_p [0, 1), penalty > 0; NaN and infinity are refused. sample() refuses a top_k above the
// vocabulary size.
Result<void> check(const SamplerOptions& options);

// Applies penalty, temperature, top_k, top_p and min_p (relative to the best token's probability),
// in this order; ties go to the lower id. Each call takes one random number, so step n of a seed
// draws the same number whatever came before. Allocates in the first call only.
class Sampler {
 public:
    explicit Sampler(const SamplerOptions& options);  // requires check(options)
    // `recent`: the ids so far, for the penalty. numerical, naming position and token id: a logit
    // that is not finite.
    Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> recent);

 private:
    double draw();
    Result<void> score(std::span<const float> logits, std::span<const int32_t> recent);
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
