#include "tools/answer/generate.h"

#include <chrono>

#include "io/clock.h"
#include "io/counted.h"
#include "io/profile.h"
#include "io/text.h"
#include "tools/answer/token_chooser.h"

namespace sluice {

namespace {

constexpr std::chrono::seconds files_every{1};

// The generation loop, with the answer so far.
class Generation {
 public:
    Generation(TokenSource& source, AnswerStream stream, TokenChooser chooser,
               const GenerateOptions& options, const PieceSink& sink)
        : source_(source),
          stream_(std::move(stream)),
          chooser_(std::move(chooser)),
          options_(options),
          sink_(sink) {}

    Result<Answer> run(std::span<const int32_t> prompt) {
        const spans::Group group("answer");
        const spans::Leaf leaf("text");
        tokens_.assign(prompt.begin(), prompt.end());
        answer_.prompt_tokens = prompt.size();
        RunStats before = source_.stats();
        auto start = Clock::now();
        auto kept = source_.rewind_to_prefix(prompt);
        if (!kept) return tl::unexpected(kept.error());
        answer_.cached_tokens = static_cast<uint64_t>(*kept);
        if (*kept > 0) answer_.cached_by = source_.kept_by();
        auto token = next(prompt.subspan(static_cast<size_t>(*kept)));
        if (!token) return tl::unexpected(token.error());
        answer_.prompt_s = seconds_since(start);
        RunStats after = source_.stats();
        answer_.prompt = after - before;

        start = Clock::now();
        decode(*token);
        answer_.decode_s = seconds_since(start);
        answer_.decode = source_.stats() - after;
        if (auto same = source_.files_unchanged(); !same && !answer_.error) fail_with(same.error());
        if (!answer_.error) source_.answered();
        close();
        return std::move(answer_);
    }

 private:
    bool cancelled() const { return options_.cancel && *options_.cancel; }

    // The token that follows `ids`. A plain greedy choice needs no logits on the host.
    Result<int32_t> next(std::span<const int32_t> ids) {
        const bool reasoning = stream_.in_reasoning();
        if (chooser_.takes_best(reasoning)) {
            auto best = source_.feed_best(ids);
            if (best) chooser_.took(*best, reasoning);
            return best;
        }
        auto logits = source_.feed(ids);
        if (!logits) return tl::unexpected(logits.error());
        const spans::Leaf leaf("sample");
        return chooser_.choose(*logits, tokens_, answer_.prompt_tokens, reasoning);
    }

    void show(AnswerStream::Piece piece) {
        answer_.text += piece.content;
        answer_.reasoning += piece.reasoning;
        answer_.calls.insert(answer_.calls.end(), piece.calls.begin(), piece.calls.end());
        answer_.logprobs.insert(answer_.logprobs.end(), piece.logprobs.begin(),
                                piece.logprobs.end());
        if (!sink_(piece)) interrupt_ = true;
    }

    // Stops a long answer soon after a checkpoint file changes, instead of at its end.
    Result<void> check_files() {
        const auto now = Clock::now();
        if (now - files_checked_ < files_every) return {};
        files_checked_ = now;
        return source_.files_unchanged();
    }

    // Adds `token` and the tokens after it to the answer, until it ends.
    void decode(int32_t token) {
        while (true) {
            tokens_.push_back(token);
            auto piece = stream_.push(token);
            if (chooser_.logprobs()) piece.logprobs.push_back(*chooser_.logprobs());
            show(std::move(piece));
            if (stream_.ended()) return end(stream_.ended_by());
            if (chooser_.complete()) return end(Finish::stop);
            if (interrupt_ || cancelled()) return end(Finish::interrupted);
            bool full = static_cast<int64_t>(tokens_.size()) >= options_.context;
            bool enough = options_.predict >= 0 &&
                          stream_.tokens() >= static_cast<uint64_t>(options_.predict);
            if (full || enough) return end(Finish::length);
            if (auto same = check_files(); !same) return fail_with(same.error());
            auto following = next(std::span<const int32_t>(&token, 1));
            if (!following) return fail_with(following.error());
            token = *following;
        }
    }

    void end(Finish finish) { answer_.finish = finish; }

    void fail_with(const Error& error) {
        if (error.code == Code::interrupted) return end(Finish::interrupted);
        answer_.error = error;
        end(Finish::error);
    }

    void close() {
        auto rest = stream_.finish();
        answer_.stop = stream_.stop();
        answer_.unclosed = stream_.unclosed();
        answer_.cut_reasoning = stream_.in_reasoning() && !answer_.unclosed;
        answer_.malformed_call = !stream_.malformed_call().empty();
        // Reasoning that never ended was the answer after all: its text becomes the content.
        if (answer_.unclosed) answer_.reasoning.clear();
        show(std::move(rest));
        answer_.completion_tokens = stream_.tokens();
        answer_.reasoning_tokens = answer_.unclosed ? 0 : stream_.reasoning_tokens();
    }

    TokenSource& source_;
    AnswerStream stream_;
    TokenChooser chooser_;
    const GenerateOptions& options_;
    const PieceSink& sink_;
    std::vector<int32_t> tokens_;
    Answer answer_;
    bool interrupt_ = false;
    Clock::time_point files_checked_ = Clock::now();
};

}  // namespace

Result<void> check_room(size_t prompt, int64_t predict, int32_t context) {
    const auto used = static_cast<int64_t>(prompt);
    const auto refuse = [&](const std::string& why) {
        return fail(Code::usage, cat("the prompt has ", counted(prompt, "token"),
                                     " and the context ", context, ": ", why));
    };
    if (used >= context) return refuse("no room for an answer; raise -c or shorten the prompt");
    if (predict <= context - used) return {};
    return refuse(cat("no room for ", predict, " more (-n); raise -c, or lower -n to ",
                      context - used, " (-1: as many as fit)"));
}

Result<Answer> generate(TokenSource& source, const Tokenizer& tokenizer,
                        std::span<const int32_t> end_tokens, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const PieceSink& sink) {
    if (prompt.empty()) return fail(Code::usage, "the prompt is empty");
    if (auto room = check_room(prompt.size(), -1, options.context); !room) {
        return tl::unexpected(room.error());
    }
    auto chooser = TokenChooser::create(tokenizer, end_tokens, options);
    if (!chooser) return tl::unexpected(chooser.error());
    auto stream = AnswerStream::create(tokenizer, end_tokens, options.stream);
    if (!stream) return tl::unexpected(stream.error());
    return Generation(source, std::move(*stream), std::move(*chooser), options, sink).run(prompt);
}

}  // namespace sluice
