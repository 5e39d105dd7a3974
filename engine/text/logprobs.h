// Log-probabilities of tokens, as API clients ask for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

struct TokenLogprob {
    int32_t id = 0;
    double logprob = 0;
};

inline constexpr int32_t top_logprobs_max = 20;

// Of one position of an answer.
struct TokenLogprobs {
    TokenLogprob chosen;
    std::vector<TokenLogprob> best;  // the most likely ids, best first, ties to the lower id
};

// The log-softmax of the logits as the model gave them, in double: the model's own distribution,
// before temperature, penalties, biases and constraints. Requires finite logits, `chosen` among
// them, and 0 <= best <= top_logprobs_max. Costs one pass over the logits with an exponential each.
TokenLogprobs log_probabilities(std::span<const float> logits, int32_t chosen, int32_t best);

}  // namespace sluice
