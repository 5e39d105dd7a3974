// Turns generated tokens into the text that is shown: reasoning apart from content, complete
// characters only, no part of a stop string; and finds out when and why the answer ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/text/answer_parser.h"
#include "engine/text/logprobs.h"
#include "engine/text/prompt.h"
#include "engine/text/stop_matcher.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"
#include "tools/answer/loop_guard.h"

namespace sluice {

enum class Finish { stop, length, tool_calls, interrupted, loop, error };
const char* finish_name(Finish finish);  // "stop"

struct StreamOptions {
    const ChatTokens* tokens = nullptr;  // the model's; null: thoughts are not told apart
    PromptMode mode = PromptMode::chat;
    std::vector<std::string> stop;
    bool ignore_eos = false;
    int32_t loop_guard = 0;
    const ToolSyntax* tools = nullptr;     // if tools were declared: how calls are written
    std::string call_id_prefix = "call_";  // calls get the ids call_1, call_2, ...
    Unclosed unclosed = Unclosed::is_answer;
};

// Stop strings are searched for in the content, not in the reasoning or in tool calls. An end token
// ends the answer and is counted, but has no text. Complete tool calls end it, too.
class AnswerStream {
 public:
    static Result<AnswerStream> create(const Tokenizer& tokenizer,
                                       std::span<const int32_t> end_tokens,
                                       const StreamOptions& options);
    struct Piece {
        std::string reasoning = {};
        std::string content = {};
        std::vector<ToolCall> calls = {};          // all of the answer, in the piece that ends it
        std::vector<TokenLogprobs> logprobs = {};  // of the content's tokens, if asked for
    };
    // Requires !ended().
    Piece push(int32_t token);
    // The text held back so far. Call it once, when the answer ends for whatever reason.
    Piece finish();

    bool ended() const { return ended_; }
    // stop, tool_calls or loop; meaningful once ended()
    Finish ended_by() const { return finish_; }
    const std::string& stop() const { return stops_.match(); }  // the stop string found, if any
    bool in_reasoning() const { return parser_.in_reasoning(); }
    bool unclosed() const { return parser_.unclosed(); }
    // Why text that looks like a tool call is content; empty: there is none.
    std::string malformed_call() const { return parser_.malformed(); }
    uint64_t tokens() const { return tokens_; }
    uint64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
    AnswerStream(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                 const StreamOptions& options, StopMatcher stops);
    Piece show(AnswerParser::Piece parsed);
    AnswerParser parser_;
    Unclosed unclosed_;
    StopMatcher stops_;
    LoopGuard guard_;
    std::vector<int32_t> end_tokens_;
    bool ended_ = false;
    Finish finish_ = Finish::stop;
    uint64_t tokens_ = 0, reasoning_tokens_ = 0;
};

}  // namespace sluice
