// Messages to token ids: the model's own chat encoding (section 6.2), scaffold and content
// tokenised apart, so that user text can never become a control token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/tokenizer.h"
#include "io/error.h"

namespace sluice {

enum class Role { system, user, assistant, tool, latest_reminder };

struct Message {
    Role role;
    std::string content;
    std::string reasoning;  // assistant only
};

enum class PromptMode { chat, thinking };

struct PromptOptions {
    PromptMode mode = PromptMode::chat;
    int effort = 75;            // 1..100, in thinking mode; low 50, high 75, max 100
    bool drop_thinking = true;  // earlier turns lose their reasoning
};

// Ids up to and including the generation header (or without one when the last message is an
// assistant's). Errors (usage) name the message: empty list, unknown control token missing from the
// tokenizer.
Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer, const ModelConfig& config,
                                         const std::vector<Message>& messages,
                                         const PromptOptions& options);
Result<int> parse_effort(std::string_view text);  // "low", "high", "max", "1".."100"
Result<Role> parse_role(std::string_view text);   // "developer" is system

// Splits a generated stream into reasoning and content. Starts in reasoning when the prompt ended
// inside <think>. An answer that never closes its thought is content, flagged (unclosed()). No
// control token text in either.
class AnswerParser {
 public:
    AnswerParser(const Tokenizer& tokenizer, PromptMode mode);
    struct Piece {
        std::string reasoning;
        std::string content;
    };
    Piece push(int32_t token);
    Piece finish();
    bool in_reasoning() const { return in_reasoning_; }
    bool unclosed() const { return unclosed_; }

 private:
    const Tokenizer* tokenizer_;
    Utf8Stream stream_;
    bool in_reasoning_;
    bool unclosed_ = false;
    int32_t open_think_, close_think_;
};

}  // namespace sluice
