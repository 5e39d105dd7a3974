#include "tools/answer/token_chooser.h"

#include <algorithm>

#include "io/text.h"

namespace sluice {

Result<TokenChooser> TokenChooser::create(const Tokenizer& tokenizer,
                                          std::span<const int32_t> end_tokens,
                                          const GenerateOptions& options) {
    if (auto fine = check(options.sampler); !fine) return tl::unexpected(fine.error());
    const int32_t best = options.top_logprobs.value_or(0);
    if (best < 0 || best > top_logprobs_max)
        return fail(Code::usage, cat("top_logprobs ", best, " is out of range: it must be 0 to ",
                                     top_logprobs_max));
    return TokenChooser(tokenizer, end_tokens, options);
}

TokenChooser::TokenChooser(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                           const GenerateOptions& options)
    : sampler_(options.sampler),
      plain_greedy_(options.sampler.plain_greedy()),
      constraint_(options.constraint),
      top_logprobs_(options.top_logprobs),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      mask_(constraint_ ? static_cast<size_t>(tokenizer.size()) : 0) {}

bool TokenChooser::is_limited(bool reasoning) const {
    return constraint_ && (reasoning || constraint_->limits());
}

bool TokenChooser::is_end(int32_t token) const {
    return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

bool TokenChooser::takes_best(bool reasoning) const {
    return plain_greedy_ && !is_limited(reasoning) && (reasoning || !top_logprobs_);
}

void TokenChooser::took(int32_t token, bool reasoning) {
    logprobs_.reset();
    if (constraint_ && !reasoning) constraint_->accept(token);
}

Result<int32_t> TokenChooser::choose(std::span<const float> logits, std::span<const int32_t> tokens,
                                     size_t prompt, bool reasoning) {
    SamplerContext context{tokens, prompt};
    if (is_limited(reasoning)) {
        if (reasoning) {
            mask_.fill();
            for (int32_t id : end_tokens_)
                if (mask_.has(id)) mask_.remove(id);
        } else {
            constraint_->allowed(mask_);
        }
        context.allowed = &mask_;
    }
    auto token = sampler_.choose(logits, context);
    if (!token) return token;
    took(*token, reasoning);
    if (top_logprobs_ && !reasoning && !is_end(*token))
        logprobs_ = log_probabilities(logits, *token, *top_logprobs_);
    return token;
}

}  // namespace sluice
