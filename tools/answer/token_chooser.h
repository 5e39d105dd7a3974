// Chooses the tokens of one answer: the sampler, under the answer's constraint, with the
// log-probabilities that were asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/text/logprobs.h"
#include "engine/text/sampler.h"
#include "engine/text/token_constraint.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"
#include "tools/answer/generate.h"

namespace sluice {

// The constraint sees the content. Reasoning is free, but where a constraint waits behind it, no
// end token can end it: the answer would have no content.
class TokenChooser {
 public:
    // usage: sampling options or top_logprobs out of range.
    static Result<TokenChooser> create(const Tokenizer& tokenizer,
                                       std::span<const int32_t> end_tokens,
                                       const GenerateOptions& options);

    // Whether the next token is the one with the greatest logit, so that no logits are needed.
    // `reasoning`: whether the next token is part of it.
    bool takes_best(bool reasoning) const;
    // Says which one it was.
    void took(int32_t token, bool reasoning);
    // `tokens`: prompt and answer so far. Errors are the sampler's.
    Result<int32_t> choose(std::span<const float> logits, std::span<const int32_t> tokens,
                           size_t prompt, bool reasoning);

    bool complete() const { return constraint_ && constraint_->complete(); }
    // Of the token chosen last, if it is one of the content, not an end token, and they are wanted.
    const std::optional<TokenLogprobs>& logprobs() const { return logprobs_; }

 private:
    TokenChooser(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                 const GenerateOptions& options);
    bool is_limited(bool reasoning) const;
    bool is_end(int32_t token) const;

    Sampler sampler_;
    bool plain_greedy_;
    std::shared_ptr<TokenConstraint> constraint_;
    std::optional<int32_t> top_logprobs_;
    std::vector<int32_t> end_tokens_;
    TokenMask mask_;
    std::optional<TokenLogprobs> logprobs_;
};

}  // namespace sluice
