// Requests and replies of the HTTP APIs, for tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "io/text.h"
#include "tests/support/tokenizers.h"
#include "tools/api/dialect.h"

namespace sluice::test {

inline constexpr std::string_view chat = "/v1/chat/completions", completions = "/v1/completions",
                                  responses = "/v1/responses", anthropic = "/v1/messages";

inline const Dialect& dialect(std::string_view path) {
    for (const ApiRoute& route : api_routes()) {
        if (route.path == path) return *route.dialect;
    }
    FAIL("no route " << path);
    return *api_routes()[0].dialect;
}

inline AnswerRequest defaults() {
    AnswerRequest out;
    out.prompt = {PromptMode::chat, 75, true};
    out.predict = 1000;
    out.stop = {"default stop"};
    return out;
}

// The least that a request of this API needs, without its braces.
inline std::string_view least(std::string_view path) {
    if (path == chat) return R"("messages":[{"role":"user","content":"hi"}])";
    if (path == completions) return R"("prompt":"hi")";
    if (path == responses) return R"("input":"hi")";
    return R"("max_tokens":9,"messages":[{"role":"user","content":"hi"}])";
}

inline Result<ApiRequest> parse_with(std::string_view path, std::string_view members) {
    const std::string comma = members.empty() ? "" : ",";
    return dialect(path).parse(cat("{", least(path), comma, members, "}"), defaults());
}

inline ApiRequest parsed(std::string_view path, std::string_view body) {
    auto request = dialect(path).parse(body, defaults());
    REQUIRE_MESSAGE(request, (request ? "" : request.error().message));
    return std::move(*request);
}

inline std::string refusal(std::string_view path, std::string_view body) {
    const auto request = dialect(path).parse(body, defaults());
    REQUIRE_FALSE(request);
    return request.error().message;
}

inline ReplyFacts facts() {
    return {.id = 0xabc,
            .created = 1700000000,
            .model = "tiny",
            .tokenizer = &tiny_tokenizer(),
            .prompt_tokens = 7};
}

}  // namespace sluice::test
