// Generates one answer: feeds the prompt, then samples tokens until something ends the answer.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/text/sampler.h"
#include "io/error.h"
#include "tools/answer/answer_stream.h"

namespace sluice {

// What generate() needs from a session. Tests replace it with a scripted source.
class TokenSource {
 public:
    virtual ~TokenSource() = default;
    // Keeps the longest prefix of `ids` (without the last one) that the source already holds;
    // returns its length.
    virtual Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids) = 0;
    virtual Result<std::span<const float>> feed(std::span<const int32_t> ids) = 0;
    // As feed(), but returns the id that a greedy sampler would choose.
    virtual Result<int32_t> feed_best(std::span<const int32_t> ids) = 0;
    virtual RunStats stats() const = 0;
    // Error when a checkpoint file has changed since it was opened. Called every second and when
    // the answer is complete.
    virtual Result<void> files_unchanged() const { return {}; }
};

class SessionSource : public TokenSource {
 public:
    explicit SessionSource(Session& session) : session_(session) {}
    Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids) override {
        return session_.rewind_to_prefix(ids);
    }
    Result<std::span<const float>> feed(std::span<const int32_t> ids) override {
        return session_.feed(ids);
    }
    Result<int32_t> feed_best(std::span<const int32_t> ids) override {
        return session_.feed_best(ids);
    }
    RunStats stats() const override { return session_.stats(); }
    Result<void> files_unchanged() const override { return session_.files_unchanged(); }

 private:
    Session& session_;
};

struct GenerateOptions {
    StreamOptions stream;
    SamplerOptions sampler;
    int64_t predict = -1;  // maximum tokens to generate; -1: limited by the context only
    int32_t context = 0;   // tokens the session can hold
    const std::atomic<bool>* cancel = nullptr;
};

struct Answer {
    std::string text, reasoning;
    Finish finish = Finish::stop;
    std::optional<Error> error;  // with Finish::error
    bool unclosed = false;       // the reasoning never ended: its text is the content
    uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
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
