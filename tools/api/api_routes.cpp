// Source of dialect.h: the routes.
#include "tools/answer/json_writer.h"
#include "tools/api/dialect.h"
#include "tools/api/errors.h"
#include "tools/api/replies.h"
#include "tools/api/requests.h"

namespace sluice {

namespace {

class DialectOf final : public Dialect {
 public:
    using Parse = Result<ApiRequest> (*)(std::string_view, const AnswerRequest&);
    using Writer = std::unique_ptr<ReplyWriter> (*)(const ApiRequest&, const ReplyFacts&);
    using ErrorBody = std::string (*)(int, std::string_view);
    constexpr DialectOf(Parse parse, Writer writer, ErrorBody error)
        : parse_(parse), writer_(writer), error_(error) {}

    Result<ApiRequest> parse(std::string_view body, const AnswerRequest& defaults) const override {
        return parse_(body, defaults);
    }
    std::unique_ptr<ReplyWriter> writer(const ApiRequest& request,
                                        const ReplyFacts& facts) const override {
        return writer_(request, facts);
    }
    std::string error(int status, std::string_view message) const override {
        return error_(status, message);
    }

 private:
    Parse parse_;
    Writer writer_;
    ErrorBody error_;
};

const DialectOf chat(parse_chat, chat_writer, openai_error);
const DialectOf completion(parse_completion, completion_writer, openai_error);
const DialectOf responses(parse_responses, responses_writer, openai_error);
const DialectOf anthropic(parse_anthropic, anthropic_writer, anthropic_error);

const ApiRoute routes[] = {
    {"/v1/chat/completions", &chat},
    {"/v1/completions", &completion},
    {"/v1/responses", &responses},
    {"/v1/messages", &anthropic},
};

const CountRoute counts[] = {
    {"/v1/messages/count_tokens", &anthropic, parse_anthropic_count, {}},
    {"/v1/responses/input_tokens", &responses, parse_responses, "response.input_tokens"},
};

}  // namespace

std::span<const ApiRoute> api_routes() {
    return routes;
}

std::span<const CountRoute> count_routes() {
    return counts;
}

std::string count_reply(const CountRoute& route, uint64_t tokens) {
    JsonWriter json;
    json.begin_object();
    if (!route.object.empty()) json.member("object", route.object);
    return json.member("input_tokens", tokens).end_object().text();
}

}  // namespace sluice
