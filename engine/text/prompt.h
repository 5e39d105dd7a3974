// Turns messages into token ids: the chat encoding of a model. Here is what the models share; what
// is different in each, such as the token in front of the system content, is its ChatFormat
// (chat_format.h).
//
// The encoding is defined as one string. Control tokens in it stand for themselves; everything
// between two of them, fixed words and message content alike, is tokenised as one text. The ids are
// those of that string, except that no message content ever becomes a control token.
//
//     BOS [token] [effort text] [system content] [tool block] [response format] { turn }
//     user, tool       User content [header]
//     later system     token content [header]
//     assistant        [reasoning close_think] content [tool calls] EOS
//     latest_reminder  latest_reminder content
//     header           Assistant open_think | close_think   (only in front of an answer)
//
// A tool message and the tool and user messages that follow it are one user turn. Its parts are
// joined by an empty line, each result inside <tool_result> tags: in the order given, but results
// with a call_id in the order of the calls (tool_results.h). The wording of tool block and response
// format comes from the model's folder (prompt_wording.h), the writing of calls from a table
// (tool_syntax.h).
//
// A message with a task has the task's token in place of the header, the task "action" behind it.
// The answer to such a message has no reasoning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/chat_format.h"
#include "engine/text/prompt_wording.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tool_syntax.h"
#include "io/error.h"
#include "io/json.h"

namespace sluice {

enum class Role { system, user, assistant, tool, latest_reminder };

struct Message {
    Role role;
    std::string content;
    std::string reasoning = {};        // assistant only
    std::vector<ToolCall> calls = {};  // assistant only
    std::string call_id = {};          // tool only: the call that it answers; empty: not said
    // user and assistant only: action, query, authority, domain, title, read_url; empty: none
    std::string task = {};
};

enum class PromptMode { chat, thinking };

struct PromptOptions {
    PromptMode mode = PromptMode::chat;
    std::optional<int> effort = {};  // thinking mode only: ChatFormat::effort; none: the model's
    bool drop_thinking = true;  // earlier turns lose their reasoning; not so if there are tools
    // The last message, an assistant's, is one that the answer goes on with: its turn stays open.
    bool continue_last = false;
    // Declarations of tools: the `function` objects, each with its name and parameters.
    std::vector<Json> tools = {};
    std::string response_format = {};  // a JSON schema that the answer must follow; empty: none
    const PromptWording* wording = nullptr;  // if needs_wording(); not owned
};

// Tools and response formats are written with the model's own wording, and so are the efforts of
// some models.
bool needs_wording(const ChatFormat& format, const PromptOptions& options);

// The ids up to and including the generation header, which is left out if the last message is an
// assistant's. usage: no messages, an effort that the model does not know, a last message without
// an answer (a system message alone, a reminder), one that cannot be continued (not an assistant's
// behind a question, or one with tool calls), an unknown task, a tool call or result that cannot be
// written; the error names the message. unsupported: the tokenizer lacks a control token, or the
// wording has unknown fields. not_found: the wording is needed and missing.
Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         const std::vector<Message>& messages,
                                         const PromptOptions& options);
Result<int> parse_effort(std::string_view text);  // "low", "high", "max", "1".."100"
Result<Role> parse_role(std::string_view text);   // "developer" means system
const char* role_name(Role role);                 // "user"
// The answer to a last message with this task is content, in thinking mode too.
bool answers_without_header(std::string_view task);

}  // namespace sluice
