// One HTTP API for answers: how its requests are read, and how its answers, streams and errors are
// written. Pure text to text: no sockets, no threads, no model; the server (tools/server) runs what
// is parsed here. A Dialect is immutable and used by any thread; a ReplyWriter belongs to one
// request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"
#include "io/error.h"
#include "tools/answer/answer_stream.h"
#include "tools/answer/generate.h"
#include "tools/answer/request.h"

namespace sluice {

struct ApiRequest {
    AnswerRequest answer;
    bool stream = false;
    bool usage_in_stream = false;  // OpenAI's stream_options.include_usage
    bool parallel_calls = true;    // false: a reply has only the first tool call of the answer
    // The model that the client named; servers of one model answer whatever it is.
    std::string model;
    // Names of request fields that are unknown or change nothing here, for the log: "user, foo".
    std::string ignored;
};

// What a reply says of itself.
struct ReplyFacts {
    uint64_t id = 0;                       // random; a dialect adds its prefix, such as "chatcmpl-"
    int64_t created = 0;                   // seconds since 1970
    std::string model;                     // the served model's name
    const Tokenizer* tokenizer = nullptr;  // for the texts of log-probabilities
    uint64_t prompt_tokens = 0;            // for streams whose first event tells it
};

// Every function returns bytes of the body that can be sent at once. For a stream: begin(), then
// piece() for each one, then end() or failed(). Otherwise only whole().
class ReplyWriter {
 public:
    virtual ~ReplyWriter() = default;
    virtual std::string begin() = 0;
    virtual std::string piece(const AnswerStream::Piece& piece) = 0;
    virtual std::string end(const Answer& answer) = 0;
    // An error after the stream has begun. The stream is over then.
    virtual std::string failed(int status, const Error& error) = 0;
    // Sent when nothing else was for some seconds: that the connection is alive, and how far the
    // prompt has been read (0..1) or the place in the queue (1: next; 0: running).
    virtual std::string keep_alive(int64_t queue_place, double prompt_done) = 0;
    virtual std::string whole(const Answer& answer) = 0;
};

class Dialect {
 public:
    virtual ~Dialect() = default;
    // `body` is hostile. `defaults` has what the request leaves open. usage: the request is wrong,
    // naming the field; unsupported: a field that asks for what is not done here.
    virtual Result<ApiRequest> parse(std::string_view body,
                                     const AnswerRequest& defaults) const = 0;
    virtual std::unique_ptr<ReplyWriter> writer(const ApiRequest& request,
                                                const ReplyFacts& facts) const = 0;
    // The body of an error reply, in this API's form.
    virtual std::string error(int status, std::string_view message) const = 0;
};

struct ApiRoute {
    std::string_view path;  // "/v1/chat/completions"
    const Dialect* dialect;
};
// All of them: OpenAI's /v1/chat/completions, /v1/completions and /v1/responses, Anthropic's
// /v1/messages.
std::span<const ApiRoute> api_routes();

// A request that is not answered: only the tokens of its prompt are counted.
struct CountRoute {
    std::string_view path;
    const Dialect* dialect;  // for errors
    // As Dialect::parse(), without what only an answer needs.
    Result<ApiRequest> (*parse)(std::string_view body, const AnswerRequest& defaults);
    std::string_view object;  // the reply's member `object`; empty: it has none
};
// Anthropic's /v1/messages/count_tokens and OpenAI's /v1/responses/input_tokens.
std::span<const CountRoute> count_routes();
std::string count_reply(const CountRoute& route, uint64_t tokens);

// The HTTP status of an error: 400 for usage and unsupported, 499 for interrupted, 503 for
// no_memory, else 500.
int http_status(Code code);

}  // namespace sluice
