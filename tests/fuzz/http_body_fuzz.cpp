// libFuzzer target: any bytes as a request body of each HTTP API. What is accepted must be a
// request that can be prepared, and its replies must be JSON whatever the model answers.
// tests/dev/fuzz.sh builds and runs it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "io/json.h"
#include "tools/api/dialect.h"

namespace {

void require(bool truth) {
    if (!truth) std::abort();
}

void check_refusal(const sluice::Dialect& api, const sluice::Error& error) {
    require(sluice::http_status(error.code) == 400);
    require(!error.message.empty() && error.message.size() < 1000);
    require(error.message.find_first_of("\n\r\x1b") == std::string::npos);
    require(sluice::Json::parse(api.error(400, error.message)).has_value());
}

void check_request(const sluice::AnswerRequest& request) {
    require(sluice::check(request.sampler).has_value());
    require(request.predict == -1 || request.predict > 0);
    require(sluice::StopMatcher::create(request.stop).has_value());
    require(request.text || !request.ids.empty() || !request.messages.empty());
    for (const auto& tool : request.tools) require(sluice::Json::parse(tool).has_value());
    for (const auto& message : request.messages) {
        for (const auto& call : message.calls) {
            const auto arguments = sluice::Json::parse(call.arguments);
            require(arguments && arguments->is_object());
        }
    }
    if (request.format == sluice::ResponseFormat::json_schema) {
        require(sluice::Json::parse(request.schema).has_value());
    }
}

// Answers with the request's own bytes.
void check_replies(const sluice::Dialect& api, const sluice::ApiRequest& request,
                   const std::string& body) {
    const sluice::ReplyFacts facts{.id = 1, .created = 1, .model = request.model};
    sluice::Answer answer;
    answer.text = body;
    answer.reasoning = body.substr(body.size() / 2);
    answer.calls = {{"", "f", "{}"}, {"id", "g", "{\"a\":1}"}};
    answer.stop = body;
    require(sluice::Json::parse(api.writer(request, facts)->whole(answer)).has_value());
    const auto stream = api.writer(request, facts);
    std::string bytes = stream->begin() + stream->piece({.reasoning = answer.reasoning});
    bytes += stream->piece({.content = body, .calls = answer.calls}) + stream->end(answer);
    require(bytes.ends_with("\n\n"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string body(size, '\0');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>(data[i]);
    for (const sluice::ApiRoute& route : sluice::api_routes()) {
        const auto request = route.dialect->parse(body, {});
        if (!request) {
            check_refusal(*route.dialect, request.error());
            continue;
        }
        check_request(request->answer);
        check_replies(*route.dialect, *request, body);
    }
    return 0;
}
