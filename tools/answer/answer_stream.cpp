#include "tools/answer/answer_stream.h"

#include <algorithm>

namespace sluice {

const char* finish_name(Finish finish) {
    switch (finish) {
        case Finish::stop:
            return "stop";
        case Finish::length:
            return "length";
        case Finish::tool_calls:
            return "tool_calls";
        case Finish::interrupted:
            return "interrupted";
        case Finish::loop:
            return "loop";
        case Finish::error:
            return "error";
    }
    return "error";
}

Result<AnswerStream> AnswerStream::create(const Tokenizer& tokenizer,
                                          std::span<const int32_t> end_tokens,
                                          const StreamOptions& options) {
    auto stops = StopMatcher::create(options.stop);
    if (!stops) return tl::unexpected(stops.error());
    auto ends = options.ignore_eos ? std::span<const int32_t>() : end_tokens;
    return AnswerStream(tokenizer, ends, options, std::move(*stops));
}

AnswerStream::AnswerStream(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                           const StreamOptions& options, StopMatcher stops)
    : parser_(tokenizer, options.tokens, options.mode, options.tools, options.call_id_prefix),
      unclosed_(options.unclosed),
      stops_(std::move(stops)),
      guard_(options.loop_guard),
      end_tokens_(end_tokens.begin(), end_tokens.end()) {}

AnswerStream::Piece AnswerStream::show(AnswerParser::Piece parsed) {
    return {.reasoning = std::move(parsed.reasoning),
            .content = stops_.push(parsed.content),
            .calls = std::move(parsed.calls)};
}

AnswerStream::Piece AnswerStream::push(int32_t token) {
    ++tokens_;
    if (std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end()) {
        ended_ = true;
        return {};
    }
    if (parser_.in_reasoning()) ++reasoning_tokens_;
    Piece piece = show(parser_.push(token));
    if (stops_.stopped()) {
        ended_ = true;
    } else if (parser_.called()) {
        ended_ = true;
        finish_ = Finish::tool_calls;
        piece.content += stops_.finish();  // content comes before calls
    } else if (guard_.push(token)) {
        ended_ = true;
        finish_ = Finish::loop;
    }
    return piece;
}

AnswerStream::Piece AnswerStream::finish() {
    Piece piece = show(parser_.finish(unclosed_));
    piece.content += stops_.finish();
    return piece;
}

}  // namespace sluice
