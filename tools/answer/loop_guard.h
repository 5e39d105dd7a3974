// Notices an answer that turns in a circle: the last N tokens are one cycle, of at most N / 4
// tokens, over and over (so at least four times). Off at N = 0. O(N) a token.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

class LoopGuard {
 public:
    explicit LoopGuard(int32_t tokens) : tokens_(tokens), runs_(tokens / 4 + 1, 0) {}
    // True when the stream has been in a loop for N tokens.
    bool push(int32_t token);

 private:
    int32_t tokens_;
    std::vector<int32_t> seen_;
    std::vector<int32_t>
        runs_;  // by period: how many tokens in a row equal the one a period before
};

}  // namespace sluice
