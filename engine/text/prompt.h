// Messages to token ids: the model's own chat encoding, and its answer back to text.
//
// The encoding is one string in which control tokens stand for themselves and everything between
// two of them, scaffold words and content alike, is one text: ids equal those of that string, but
// text never becomes a control token, whatever a message holds.
//
//     BOS [System [effort text] system content] { turn }
//     user, tool       User content Assistant <think> | </think>
//     later system     System content Assistant ...         (the header only before an answer)
//     assistant        [reasoning </think>] content EOS
//     latest_reminder  latest_reminder content
//
// Neighbouring tool and user messages that begin with a tool result are one user turn, its parts
// joined by an empty line, each result inside <tool_result> tags, in the order given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

// The control tokens between which a conversation stands.
inline constexpr std::string_view begin_token = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view end_token = "<｜end▁of▁sentence｜>";

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
// assistant's). usage, naming the message: an empty list, effort out of range, a last message that
// nothing can answer (a system message alone, a reminder after the user). unsupported: a control
// token that the tokenizer lacks.
Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer,
                                         const std::vector<Message>& messages,
                                         const PromptOptions& options);
Result<int> parse_effort(std::string_view text);  // "low", "high", "max", "1".."100"
Result<Role> parse_role(std::string_view text);   // "developer" is system

// Splits a generated stream into reasoning and content. In thinking mode it starts in reasoning,
// since the prompt ended inside <think>. Control tokens (all added tokens) show in neither text:
// </think> ends the reasoning, <think> begins one, others are dropped.
//
// A turn that ends inside a thought has put its answer there: finish() then gives the whole text of
// that thought once more as content, and unclosed() is true. Who shows both drops the reasoning.
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
    void put(std::string text, Piece& piece);

    const Tokenizer* tokenizer_;
    Utf8Stream stream_;
    bool in_reasoning_;
    bool unclosed_ = false;
    int32_t open_think_, close_think_;  // -1: the tokenizer has none
    std::string thought_;               // of the thought that is open
};

}  // namespace sluice
