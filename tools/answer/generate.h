// One answer: prompt in, tokens out, until something ends it.
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

// What generate() needs of a session; tests script it.
class TokenSource {
 public:
    virtual ~TokenSource() = default;
    // Makes the source hold ids but the last where it can; how many are already there.
    virtual Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids) = 0;
    virtual Result<std::span<const float>> feed(std::span<const int32_t> ids) = 0;
    // The id that a greedy sampler takes from those logits.
    virtual Result<int32_t> feed_best(std::span<const int32_t> ids) = 0;
    virtual RunStats stats() const = 0;
    // Asked when the answer is there.
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
    int64_t predict = -1;  // tokens; -1: no limit but the context
    int32_t context = 0;   // tokens the session can hold
    const std::atomic<bool>* cancel = nullptr;
};

struct Answer {
    std::string text, reasoning;
    Finish finish = Finish::stop;
    std::optional<Error> error;  // with Finish::error
    bool unclosed = false;       // the thought never ended: its text is the content
    uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
    double prompt_s = 0, decode_s = 0;  // decode: all tokens but the first
    RunStats prompt, decode;            // what each part did
    uint64_t decoded() const { return completion_tokens > 0 ? completion_tokens - 1 : 0; }
};

// Told each piece as it comes; false ends the answer as interrupted (its reader is gone).
using PieceSink = std::function<bool(const AnswerStream::Piece&)>;

// usage, with the numbers: a prompt of so many tokens leaves no room in the context, or none for an
// answer of `predict` tokens (-1: any length).
Result<void> check_room(size_t prompt, int64_t predict, int32_t context);

// Errors before the first token are the Result's (a prompt that leaves no room in the context is
// usage, with both numbers); later ones end the answer with Finish::error and keep its text.
// Reaching the context ends with Finish::length,
// whatever `predict` says: who wants all of it asks check_room() first.
Result<Answer> generate(TokenSource& source, const Tokenizer& tokenizer,
                        std::span<const int32_t> end_tokens, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const PieceSink& sink);

}  // namespace sluice
