// The next token from logits. Deterministic in (logits, options, seed, step).
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
// Ranges: temperature >= 0, top_k 0..vocab, top_p (0, 1], min_p [0, 1), penalty > 0; NaN refused.
// usage names the field.
Result<void> check(const SamplerOptions& options);

class Sampler {
 public:
    explicit Sampler(const SamplerOptions& options);
    // `recent`: the ids so far, for the penalty. A logit that is not finite: numerical, naming
    // token position and id.
    Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> recent);

 private:
    SamplerOptions options_;
    uint64_t state_[4];
    std::vector<float> work_;
    std::vector<int32_t> order_;
};

}  // namespace sluice
