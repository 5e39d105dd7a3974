// Splits a generated token stream into reasoning and content.
#pragma once

#include <cstdint>
#include <string>

#include "engine/text/prompt.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8_stream.h"

namespace sluice {

// In thinking mode the stream starts in reasoning, since the prompt ended inside <think>. Control
// tokens (all added tokens) appear in neither text: </think> ends the reasoning, <think> begins
// one, others are dropped.
//
// A turn that ends inside a thought has put its answer there: finish() then returns the whole text
// of that thought once more as content, and unclosed() is true. A caller that shows both drops the
// reasoning.
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
    int32_t open_think_, close_think_;  // -1: the tokenizer lacks it
    std::string thought_;               // text of the open thought
};

}  // namespace sluice
