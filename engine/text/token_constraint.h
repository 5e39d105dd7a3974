// Limits which token may come next in an answer.
//
// A constraint belongs to one answer and one thread. It sees the tokens of the content only: in
// thinking mode it begins behind the reasoning. A stop string, an interruption or a limit on the
// number of tokens can still cut the answer off; nothing else can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/text/token_mask.h"

namespace sluice {

class TokenConstraint {
 public:
    virtual ~TokenConstraint() = default;
    // False while any token may follow: then allowed() need not be called.
    virtual bool limits() const = 0;
    // Makes `mask` the ids that may follow; at least one unless complete(). It has the size of the
    // tokenizer's vocabulary, which can be smaller than that of the logits.
    virtual void allowed(TokenMask& mask) = 0;
    // Requires an id that may follow.
    virtual void accept(int32_t token) = 0;
    // The answer is complete, and nothing may follow but its end.
    virtual bool complete() const = 0;
};

// The answer begins with given tokens, and goes on freely or under another constraint.
class ForcedPrefix : public TokenConstraint {
 public:
    // Requires ids of the vocabulary. `then` may be null.
    explicit ForcedPrefix(std::vector<int32_t> ids, std::unique_ptr<TokenConstraint> then = {});
    bool limits() const override;
    void allowed(TokenMask& mask) override;
    void accept(int32_t token) override;
    bool complete() const override;

 private:
    bool in_prefix() const { return at_ < ids_.size(); }

    std::vector<int32_t> ids_;
    size_t at_ = 0;
    std::unique_ptr<TokenConstraint> then_;
};

// The answer is under one of several constraints: those that allowed all of its tokens so far.
class EitherConstraint : public TokenConstraint {
 public:
    // Requires at least one. `vocabulary`: the size of the masks.
    EitherConstraint(std::vector<std::unique_ptr<TokenConstraint>> constraints, size_t vocabulary)
        : open_(std::move(constraints)), one_(vocabulary) {}
    bool limits() const override;
    void allowed(TokenMask& mask) override;
    void accept(int32_t token) override;
    bool complete() const override;

 private:
    std::vector<std::unique_ptr<TokenConstraint>> open_;
    TokenMask one_;
};

}  // namespace sluice
