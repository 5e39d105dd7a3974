#include "engine/text/answer_parser.h"

#include <utility>

namespace sluice {

AnswerParser::AnswerParser(const Tokenizer& tokenizer, PromptMode mode)
    : tokenizer_(&tokenizer),
      in_reasoning_(mode == PromptMode::thinking),
      open_think_(tokenizer.id("<think>").value_or(-1)),
      close_think_(tokenizer.id("</think>").value_or(-1)) {}

void AnswerParser::put(std::string text, Piece& piece) {
    if (in_reasoning_) {
        thought_ += text;
        piece.reasoning += text;
    } else {
        piece.content += text;
    }
}

AnswerParser::Piece AnswerParser::push(int32_t token) {
    Piece piece;
    if (!tokenizer_->is_added(token)) {
        put(stream_.push(tokenizer_->bytes(token)), piece);
        return piece;
    }
    put(stream_.finish(), piece);
    if (token == close_think_) {
        in_reasoning_ = false;
        thought_.clear();
    } else if (token == open_think_) {
        in_reasoning_ = true;
    }
    return piece;
}

AnswerParser::Piece AnswerParser::finish() {
    Piece piece;
    put(stream_.finish(), piece);
    if (in_reasoning_) {
        unclosed_ = true;
        piece.content = std::exchange(thought_, {});
    }
    return piece;
}

}  // namespace sluice
