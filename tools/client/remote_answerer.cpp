#include "tools/client/remote_answerer.h"

#include <charconv>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "io/clock.h"
#include "io/json.h"
#include "io/text.h"
#include "tools/answer/model_run.h"
#include "tools/client/chat_body.h"
#include "tools/client/chat_stream.h"
#include "tools/client/server_error.h"
#include "tools/client/sse_reader.h"
#include "tools/terminal/show.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr std::chrono::seconds answer_patience{600};
constexpr std::chrono::milliseconds ask_again_after{500}, look_every{50};
constexpr size_t models_max = 1000;

// The number between two texts: "reading the prompt 37 %".
std::optional<int64_t> number_in(std::string_view text, std::string_view before,
                                 std::string_view behind) {
    if (!text.starts_with(before) || !text.ends_with(behind)) return std::nullopt;
    text.remove_prefix(before.size());
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
    if (error != std::errc() || rest != behind) return std::nullopt;
    return number;
}

// A status line of what a server's comments say of its queue and of the prompt.
class ServerProgress {
 public:
    explicit ServerProgress(bool enabled) : status_(enabled) {}
    void show(std::string_view comment) {
        if (const auto place = number_in(comment, "queued, place ", "")) {
            status_.show(cat("queued, place ", *place));
            start_ = Clock::now();
        } else if (const auto done = number_in(comment, "reading the prompt ", " %")) {
            const double share = static_cast<double>(std::clamp<int64_t>(*done, 0, 100)) / 100;
            status_.show(progress_text(share, seconds_since(start_)));
        }
    }
    void finish() { status_.erase(); }

 private:
    StatusLine status_;
    Clock::time_point start_ = Clock::now();
};

std::string mode_text(const Options& options) {
    if (options.thinking())
        return options.effort ? cat("thinking, effort ", *options.effort) : "thinking";
    return options.reasoning == Reasoning::off ? "chat" : "as the server is set";
}

class RemoteAnswerer final : public Answerer {
 public:
    RemoteAnswerer(HttpClient client, const RemoteModel& model, const Options& options,
                   const Terminal& terminal, AnswerFormat format)
        : client_(std::move(client)),
          options_(options),
          format_(std::move(format)),
          drawn_seed_(draw_seed()),
          progress_shown_(terminal.stderr_tty && !options.quiet) {
        facts_.server = client_.url().text();
        facts_.model = model.name;
        facts_.context = model.context;
        apply(options);
    }

    void apply(const Options& options) override {
        options_ = options;
        facts_.mode = mode_text(options_);
        facts_.seed = options_.seed.value_or(drawn_seed_);
    }
    const RunFacts& facts() const override { return facts_; }

    Result<Answer> answer(const std::vector<Message>& messages, uint64_t turn,
                          const PieceSink& sink) override {
        ChatStream stream;
        SseReader events;
        ServerProgress progress(progress_shown_);
        bool wanted = true;
        const auto take = [&](const SseItem& item) -> Result<void> {
            if (item.kind == SseItem::Kind::comment)
                return progress.show(item.text), Result<void>();
            if (stream.ended() || !wanted) return {};
            auto piece = stream.take(item.text);
            if (!piece) return tl::unexpected(piece.error());
            if (piece->reasoning.empty() && piece->content.empty()) return {};
            progress.finish();
            wanted = sink(*piece);
            return {};
        };
        const ServerQuestion question = {
            "POST", "/v1/chat/completions",
            chat_body(messages, options_, facts_.model, facts_.seed + turn, format_),
            answer_patience};
        auto reply = client_.ask(question, [&](std::string_view bytes) -> Result<bool> {
            if (auto done = events.push(bytes, take); !done) return tl::unexpected(done.error());
            return wanted && !stream.ended();
        });
        if (const auto rest = stream.finish(options_.stop); wanted && !rest.content.empty())
            wanted = sink(rest);
        return closed(stream, reply, wanted);
    }

 private:
    // As generate() ends: an error is the Result's before the first piece, and the answer's then.
    Result<Answer> closed(ChatStream& stream, const Result<ServerReply>& reply, bool wanted) const {
        std::optional<Error> error;
        if (!reply) {
            error = reply.error();
        } else if (!reply->streamed) {
            error = refusal_of(*reply);
        } else if (wanted && !stream.complete()) {
            error = Error{Code::io, "the connection was closed before the answer was complete"};
        }
        const bool interrupted = !wanted || (error && error->code == Code::interrupted);
        if (error && !interrupted) error->message = cat(facts_.server, ": ", error->message);
        if (error && !stream.begun()) return tl::unexpected(*error);
        Answer answer = std::move(stream.answer());
        if (interrupted) {
            answer.finish = Finish::interrupted;
        } else if (error) {
            answer.finish = Finish::error;
            answer.error = error;
        }
        return answer;
    }

    HttpClient client_;
    Options options_;
    const AnswerFormat format_;
    const uint64_t drawn_seed_;
    const bool progress_shown_;
    RunFacts facts_;
    const MustFinish must_finish_;
};

Result<std::vector<RemoteModel>> parse_models(const std::string& body) {
    const auto malformed = [] {
        return fail(Code::io, "its list of models is not readable: this is no such server");
    };
    const auto json = Json::parse(body);
    if (!json) return malformed();
    const Json list = (*json)["data"];
    if (!list.is_array() || list.size() == 0 || list.size() > models_max) return malformed();
    std::vector<RemoteModel> out;
    for (size_t i = 0; i < list.size(); ++i) {
        auto name = list.at(i)["id"].string();
        if (!name) return malformed();
        const int64_t context = list.at(i)["context_length"].integer().value_or(0);
        const bool sane = context > 0 && context <= std::numeric_limits<int32_t>::max();
        out.push_back({std::move(*name), sane ? static_cast<int32_t>(context) : 0});
    }
    return out;
}

// Waits a moment; false: Ctrl-C.
bool pause() {
    for (const auto end = Clock::now() + ask_again_after; Clock::now() < end;) {
        if (interrupt_requested()) return false;
        std::this_thread::sleep_for(look_every);
    }
    return true;
}

}  // namespace

Result<std::vector<RemoteModel>> remote_models(const HttpClient& client, const Options& options,
                                               const Terminal& terminal) {
    StatusLine status(terminal.stderr_tty && !options.quiet);
    bool said = terminal.stderr_tty || options.quiet;
    while (true) {
        const auto reply = client.ask({"GET", "/v1/models"});
        if (!reply) return tl::unexpected(reply.error());
        if (reply->status == 200) return parse_models(reply->body);
        ServerReply bare = *reply;
        bare.retry_after = 0;
        const Error refusal = refusal_of(bare);
        // A server that says when to come back is loading its model.
        if (reply->status != 503 || reply->retry_after == 0) return tl::unexpected(refusal);
        const std::string waiting = cat("waiting for ", client.url().text(), ": ", refusal.message);
        status.show(waiting);
        if (!said) std::fprintf(stderr, "%s\n", waiting.c_str());
        said = true;
        if (!pause()) return fail(Code::interrupted, "interrupted");
    }
}

Result<std::unique_ptr<Answerer>> remote_answerer(HttpClient client, const RemoteModel& model,
                                                  const Options& options,
                                                  const Terminal& terminal) {
    auto format = format_of(options.format);
    if (!format) return tl::unexpected(format.error());
    return std::make_unique<RemoteAnswerer>(std::move(client), model, options, terminal,
                                            std::move(*format));
}

}  // namespace sluice
