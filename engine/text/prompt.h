// Turns messages into token ids: the chat encoding of the model (deepseek-v41.md section 6.2).
//
// The encoding is defined as one string. Control tokens in it stand for themselves; everything
// between two of them, fixed words and message content alike, is tokenised as one text. The ids are
// those of that string, except that no message content ever becomes a control token.
//
//     BOS [System [effort text] system content] { turn }
//     user, tool       User content Assistant <think> | </think>
//     later system     System content Assistant ...         (Assistant ... only before an answer)
//     assistant        [reasoning </think>] content EOS
//     latest_reminder  latest_reminder content
//
// A tool message and the tool and user messages that follow it are one user turn. Its parts are
// joined by an empty line, in the order given, each result inside <tool_result> tags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

// The control tokens that begin and end a conversation.
inline constexpr std::string_view begin_token = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view end_token = "<｜end▁of▁sentence｜>";

enum class Role { system, user, assistant, tool, latest_reminder };

// A function that the model asks its caller to run.
struct ToolCall {
    std::string id;  // pairs the call with its result; empty: by position
    std::string name;
    std::string arguments;  // a JSON object, as text
};

struct Message {
    Role role;
    std::string content;
    std::string reasoning = {};        // assistant only
    std::vector<ToolCall> calls = {};  // assistant only
    std::string call_id = {};          // tool only: the call whose result this is
};

enum class PromptMode { chat, thinking };

struct PromptOptions {
    PromptMode mode = PromptMode::chat;
    int effort = 75;            // thinking mode only: 1..100; low is 50, high 75, max 100
    bool drop_thinking = true;  // earlier turns lose their reasoning
};

// The ids up to and including the generation header, which is left out if the last message is an
// assistant's. usage: no messages, effort out of range, a last message without an answer (a system
// message alone, a reminder); the error names the message. unsupported: the tokenizer lacks a
// control token.
Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer,
                                         const std::vector<Message>& messages,
                                         const PromptOptions& options);
Result<int> parse_effort(std::string_view text);  // "low", "high", "max", "1".."100"
Result<Role> parse_role(std::string_view text);   // "developer" means system

}  // namespace sluice
