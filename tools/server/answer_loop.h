// The engine's side of the queue: takes one request after another and answers it.
#pragma once

#include <functional>
#include <span>

#include "engine/text/tokenizer.h"
#include "tools/answer/token_source.h"
#include "tools/server/request_queue.h"

namespace sluice {

// What is told about the requests, on the engine's thread. None may be empty.
struct AnswerLoopHooks {
    std::function<void(AnswerJob&)> begin;                       // before its prompt is read
    std::function<void(AnswerJob&)> token;                       // after each generated token
    std::function<void(AnswerJob&, const Result<Answer>&)> end;  // before its client is told
};

class AnswerLoop {
 public:
    AnswerLoop(RequestQueue& queue, TokenSource& source, const Tokenizer& tokenizer,
               std::span<const int32_t> end_tokens, AnswerLoopHooks hooks)
        : queue_(queue),
          source_(source),
          tokenizer_(tokenizer),
          end_tokens_(end_tokens),
          hooks_(std::move(hooks)) {}

    // Answers the next request, if one comes within `patience`. Engine thread.
    void step(std::chrono::milliseconds patience);

 private:
    Result<Answer> answer(AnswerJob& job);
    RequestQueue& queue_;
    TokenSource& source_;
    const Tokenizer& tokenizer_;
    std::span<const int32_t> end_tokens_;
    AnswerLoopHooks hooks_;
};

}  // namespace sluice
