#include "tools/server/answer_endpoint.h"

#include <ctime>

#include "io/checksum.h"
#include "io/clock.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr std::chrono::milliseconds look_every{100};  // at the client, whether it is still there
constexpr std::chrono::seconds silence_max{2};        // in a stream
constexpr const char* shutting_down = "the server is shutting down";

// A failed answer's status. Nobody but a shutdown interrupts an answer whose client is there.
int status_of(const Error& error) {
    return error.code == Code::interrupted ? 503 : http_status(error.code);
}

// The error of an answer that is not complete; empty: it is.
std::optional<Error> error_of(const Result<Answer>& result) {
    if (!result) return result.error();
    if (result->error) return result->error;
    if (result->finish == Finish::interrupted) return Error{Code::interrupted, shutting_down};
    return std::nullopt;
}

// Sends what the engine generates, as it comes. The head goes out with the first bytes: errors
// until then have a status of their own.
class EventStream {
 public:
    EventStream(Exchange& exchange, ReplyWriter& writer) : exchange_(exchange), writer_(writer) {}

    bool begun() const { return begun_; }
    void add(const AnswerStream::Piece& piece) {
        begin();
        text_ += writer_.piece(piece);
    }
    void end(const Answer& answer) {
        begin();
        text_ += writer_.end(answer);
    }
    void fail(int status, const Error& error) { text_ += writer_.failed(status, error); }
    void keep_alive(int64_t place, double prompt_done) {
        begin();
        text_ += writer_.keep_alive(place, prompt_done);
    }
    bool silent() const { return Clock::now() - sent_ >= silence_max; }
    // False: the client takes nothing any more.
    bool flush() {
        if (text_.empty()) return true;
        if (!head_sent_) {
            exchange_.begin_stream({200,
                                    {},
                                    "text/event-stream",
                                    {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
        }
        head_sent_ = true;
        sent_ = Clock::now();
        return exchange_.send(std::exchange(text_, {}));
    }

 private:
    void begin() {
        if (!begun_) text_ += writer_.begin();
        begun_ = true;
    }
    Exchange& exchange_;
    ReplyWriter& writer_;
    std::string text_;
    bool begun_ = false, head_sent_ = false;
    Clock::time_point sent_ = Clock::now();
};

void reply_whole(Exchange& exchange, const Dialect& dialect, ReplyWriter& writer,
                 const Result<Answer>& result) {
    if (auto error = error_of(result)) {
        return reply_error(exchange, status_of(*error), error->message, &dialect);
    }
    exchange.reply({200, writer.whole(*result)});
}

void end_stream(Exchange& exchange, EventStream& stream, const Dialect& dialect,
                const Result<Answer>& result) {
    const auto error = error_of(result);
    if (error && !stream.begun()) {
        return reply_error(exchange, status_of(*error), error->message, &dialect);
    }
    if (error) {
        stream.fail(status_of(*error), *error);
    } else {
        stream.end(*result);
    }
    if (stream.flush()) exchange.end_stream();
}

}  // namespace

bool AnswerEndpoint::push(Exchange& exchange, const std::shared_ptr<AnswerJob>& job) const {
    switch (queue_.push(job)) {
        case RequestQueue::Pushed::waits:
            return true;
        case RequestQueue::Pushed::full:
            monitor_.count_refusal();
            exchange.add_header("Retry-After", std::to_string(queue_.retry_after_s()));
            reply_error(exchange, 503, "too many requests wait already (--queue); try again later",
                        &dialect_);
            return false;
        case RequestQueue::Pushed::stopped:
            break;
    }
    reply_error(exchange, 503, shutting_down, &dialect_);
    return false;
}

// Until the answer is complete, or its client has gone.
bool AnswerEndpoint::follow(Exchange& exchange, AnswerJob& job, ReplyWriter& writer) const {
    EventStream stream(exchange, writer);
    while (true) {
        const auto taken = job.take(look_every);
        for (const auto& piece : taken.pieces) stream.add(piece);
        if (taken.finished) {
            job.streams() ? end_stream(exchange, stream, dialect_, job.result())
                          : reply_whole(exchange, dialect_, writer, job.result());
            return true;
        }
        if (job.streams() && taken.pieces.empty() && stream.silent()) {
            stream.keep_alive(queue_.place(job), job.prompt_done);
        }
        if (!stream.flush() || exchange.client_gone()) return false;
    }
}

void AnswerEndpoint::handle(const ServedModel& model, Exchange& exchange, Handled& handled) const {
    AnswerRequest defaults = model.defaults;
    defaults.sampler.seed = model.seed ? *model.seed : draw_seed();
    auto request = dialect_.parse(exchange.request().body, defaults);
    if (!request) {
        return reply_error(exchange, http_status(request.error().code), request.error().message,
                           &dialect_);
    }
    handled.ignored = request->ignored;
    auto prepared = prepare(*model.run, request->answer);
    if (!prepared) {
        return reply_error(exchange, http_status(prepared.error().code), prepared.error().message,
                           &dialect_);
    }
    // Calls of one conversation need ids of their own.
    prepared->options.stream.call_id_prefix = cat("call_", checksum_text(draw_seed()), "_");
    const auto writer = dialect_.writer(
        *request, {draw_seed(), std::time(nullptr), model.name, &model.run->engine->tokenizer(),
                   prepared->ids.size()});
    const auto job =
        std::make_shared<AnswerJob>(handled.client, std::move(*prepared), request->stream);
    if (!push(exchange, job)) return;
    const bool whole = follow(exchange, *job, *writer);
    queue_.leave(job);
    handled.left = !whole;
    if (!whole) return;
    if (auto error = error_of(job->result()); error && status_of(*error) >= 500) {
        handled.problem = error->message;
    }
    if (!job->result()) return;
    const Answer& answer = *job->result();
    handled.answered = true;
    handled.prompt_tokens = answer.prompt_tokens;
    handled.cached_tokens = answer.cached_tokens;
    handled.completion_tokens = answer.completion_tokens;
}

}  // namespace sluice
