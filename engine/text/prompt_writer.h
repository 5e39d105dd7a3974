// Text and control tokens to ids: the ids of one string, in which only control tokens that were
// written as such are control tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

class PromptWriter {
 public:
    // The tokenizer outlives the writer.
    explicit PromptWriter(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

    // All that is written between two control tokens is tokenised as one text, which never becomes
    // a control token.
    void text(std::string_view part) { text_ += part; }
    void control(std::string_view name);
    // Fixed wording of the model: the control tokens in it are control tokens.
    void wording(std::string_view part);

    // For a token that only wording will write, and that must be a control token there.
    void require(std::string_view name);

    // The ids so far. unsupported: the tokenizer lacks a control token. The message says that it
    // "has no token 'x', which NEEDED".
    Result<std::vector<int32_t>> take(std::string_view needed);
    // The first control token that the tokenizer lacks; empty: none.
    const std::string& missing() const { return missing_; }

 private:
    void flush();
    const Tokenizer& tokenizer_;
    std::vector<int32_t> ids_;
    std::string text_, missing_;
};

}  // namespace sluice
