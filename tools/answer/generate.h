// Generates one answer: feeds the prompt, then samples tokens until something ends the answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/stats.h"
#include "engine/text/sampler.h"
#include "engine/text/token_constraint.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"
#include "tools/answer/answer_stream.h"
#include "tools/answer/token_source.h"

namespace sluice {

struct GenerateOptions {
    StreamOptions stream;
    SamplerOptions sampler;
    int64_t predict = -1;  // maximum tokens to generate; -1: limited by the context only
    int32_t context = 0;   // tokens the session can hold
    const std::atomic<bool>* cancel = nullptr;
    // Of this answer alone, and of its content: reasoning is free, but cannot end the answer then.
    // An answer that can only end is complete, without another token; null: none, and no cost.
    std::shared_ptr<TokenConstraint> constraint;
    // How many of the most likely ids to report for each position of the content, at most 20, and
    // with them that of the chosen one; empty: none, and no cost.
    std::optional<int32_t> top_logprobs;
};

struct Answer {
    std::string text, reasoning;
    std::vector<ToolCall> calls;
    std::vector<TokenLogprobs> logprobs;  // of the content, if asked for
    Finish finish = Finish::stop;
    std::string stop;             // the stop string that ended it; empty: something else did
    std::optional<Error> error;   // with Finish::error
    bool unclosed = false;        // the reasoning never ended: its text is the content
    bool cut_reasoning = false;   // it never ended, and stays reasoning
    bool malformed_call = false;  // the text holds a tool call that could not be read
    uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
    KeptBy cached_by = KeptBy::nothing;
    double prompt_s = 0, decode_s = 0;  // decode: all tokens except the first
    RunStats prompt, decode;            // the counters of each part
    uint64_t decoded() const { return completion_tokens > 0 ? completion_tokens - 1 : 0; }
};

// Receives each piece as it is generated. Returning false (its reader is gone) ends the answer as
// interrupted.
using PieceSink = std::function<bool(const AnswerStream::Piece&)>;

// Error (usage), with the numbers, when a prompt of `prompt` tokens leaves no room in the context
// for an answer, or not enough for `predict` tokens (-1: any length is enough).
Result<void> check_room(size_t prompt, int64_t predict, int32_t context);

// Errors before the first token are returned as the Result's error (a prompt that leaves no room in
// the context: usage, with both numbers). Later errors end the answer with Finish::error and keep
// its text. A full context ends the answer with Finish::length even if `predict` allows more: call
// check_room() first to make sure that `predict` tokens fit.
Result<Answer> generate(TokenSource& source, const Tokenizer& tokenizer,
                        std::span<const int32_t> end_tokens, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const PieceSink& sink);

}  // namespace sluice
