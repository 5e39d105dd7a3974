#include "engine/text/answer_parser.h"

#include <iterator>
#include <utility>

namespace sluice {

AnswerParser::AnswerParser(const Tokenizer& tokenizer, const ChatTokens* tokens, PromptMode mode,
                           const ToolSyntax* tools, std::string id_prefix)
    : tokenizer_(&tokenizer),
      in_reasoning_(mode == PromptMode::thinking),
      open_think_(tokens ? tokenizer.id(tokens->open_think).value_or(-1) : -1),
      close_think_(tokens ? tokenizer.id(tokens->close_think).value_or(-1) : -1),
      marker_(tools ? tokenizer.id(tools->marker).value_or(-1) : -1) {
    if (tools) calls_.emplace(*tools, std::move(id_prefix));
}

void AnswerParser::put(const std::string& text, Piece& piece) {
    if (in_reasoning_) {
        thought_ += text;
        piece.reasoning += text;
    } else if (calls_) {
        put(calls_->text(text), piece);
    } else {
        piece.content += text;
    }
}

void AnswerParser::put(ToolCallParser::Piece part, Piece& piece) {
    piece.content += part.content;
    std::move(part.calls.begin(), part.calls.end(), std::back_inserter(piece.calls));
}

AnswerParser::Piece AnswerParser::push(int32_t token) {
    Piece piece;
    if (!tokenizer_->is_added(token)) {
        put(stream_.push(tokenizer_->bytes(token)), piece);
        return piece;
    }
    put(stream_.finish(), piece);
    if (token == marker_) {
        if (in_reasoning_)
            put(std::string(tokenizer_->bytes(token)), piece);
        else
            put(calls_->marker(), piece);
        return piece;
    }
    if (calls_ && !in_reasoning_) put(calls_->interrupt(), piece);
    if (token == close_think_) {
        in_reasoning_ = false;
        thought_.clear();
    } else if (token == open_think_) {
        in_reasoning_ = true;
    }
    return piece;
}

AnswerParser::Piece AnswerParser::finish(Unclosed thought) {
    Piece piece;
    put(stream_.finish(), piece);
    if (calls_) put(calls_->finish(), piece);
    if (in_reasoning_ && thought == Unclosed::is_answer) {
        unclosed_ = true;
        piece.content += std::exchange(thought_, {});
    }
    return piece;
}

}  // namespace sluice
