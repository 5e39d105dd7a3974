// Log-probabilities of tokens, as API clients ask for them.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

struct TokenLogprob {
    int32_t id = 0;
    double logprob = 0;
};

// Of one position of an answer.
struct TokenLogprobs {
    TokenLogprob chosen;
    std::vector<TokenLogprob> best;  // the most likely ids, best first
};

}  // namespace sluice
