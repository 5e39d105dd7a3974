// Detects an answer that repeats itself: the last N tokens are repetitions of one sequence of at
// most N / 4 tokens (so at least four of them). N = 0 turns it off. O(N) per token.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

class LoopGuard {
 public:
    explicit LoopGuard(int32_t tokens) : tokens_(tokens), runs_(tokens / 4 + 1, 0) {}
    // True when the last N tokens are such repetitions.
    bool push(int32_t token);

 private:
    int32_t tokens_;
    std::vector<int32_t> seen_;
    // By period: how many of the last tokens in a row equal the token one period earlier.
    std::vector<int32_t> runs_;
};

}  // namespace sluice
