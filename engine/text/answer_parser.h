// Splits a generated token stream into reasoning, content and tool calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/prompt.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tool_call_parser.h"
#include "engine/text/utf8_stream.h"

namespace sluice {

// What becomes of a thought that never ends.
enum class Unclosed { is_answer, stays_reasoning };

// In thinking mode the stream starts in reasoning, since the prompt opened a thought. Control
// tokens (all added tokens) appear in neither text: close_think ends the reasoning, open_think
// begins one, others are dropped.
//
// A turn that ends inside a thought has put its answer there: finish() then returns the whole text
// of that thought once more as content, and unclosed() is true. A caller that shows both drops the
// reasoning. With Unclosed::stays_reasoning it does neither.
//
// With the syntax of tools, the content ends where calls begin (tool_call_parser.h). Calls inside
// reasoning are text of the reasoning, marker included.
class AnswerParser {
 public:
    // `tokens`, which only the constructor reads, names the tokens around a thought; null: none are
    // known. `tools` is null if no tools were declared; else it outlives the parser, and calls get
    // the ids PREFIX1, PREFIX2, ...
    AnswerParser(const Tokenizer& tokenizer, const ChatTokens* tokens, PromptMode mode,
                 const ToolSyntax* tools = nullptr, std::string id_prefix = "call_");
    struct Piece {
        std::string reasoning;
        std::string content;
        std::vector<ToolCall> calls = {};  // all of the answer, in the piece that ends it
    };
    Piece push(int32_t token);
    Piece finish(Unclosed thought = Unclosed::is_answer);
    bool in_reasoning() const { return in_reasoning_; }
    bool unclosed() const { return unclosed_; }
    // The calls are complete, and so is the answer.
    bool called() const { return calls_ && calls_->closed(); }
    // Why text that looks like a call is content; empty: there is none.
    std::string malformed() const { return calls_ ? calls_->malformed() : std::string(); }

 private:
    void put(const std::string& text, Piece& piece);
    void put(ToolCallParser::Piece part, Piece& piece);

    const Tokenizer* tokenizer_;
    Utf8Stream stream_;
    bool in_reasoning_;
    bool unclosed_ = false;
    int32_t open_think_, close_think_, marker_;  // -1: the tokenizer lacks it
    std::string thought_;                        // text of the open thought
    std::optional<ToolCallParser> calls_;        // if tools were declared
};

}  // namespace sluice
