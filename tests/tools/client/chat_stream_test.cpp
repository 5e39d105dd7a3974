#include "tools/client/chat_stream.h"

#include <doctest/doctest.h>

#include "io/text.h"
#include "tests/tools/api/api_scene.h"
#include "tools/client/server_error.h"
#include "tools/client/sse_reader.h"

using namespace sluice;

namespace {

struct Heard {
    std::string content, reasoning, error;
    Code code = Code::usage;
    ChatStream stream;
};

Heard hear(std::string_view text, size_t piece) {
    Heard out;
    SseReader events;
    const auto take = [&](const SseItem& item) -> Result<void> {
        if (item.kind == SseItem::Kind::comment || out.stream.ended()) return {};
        auto one = out.stream.take(item.text);
        if (!one) return tl::unexpected(one.error());
        out.content += one->content;
        out.reasoning += one->reasoning;
        return {};
    };
    for (size_t at = 0; at < text.size() && out.error.empty(); at += piece) {
        if (auto done = events.push(text.substr(at, piece), take); !done) {
            out.error = done.error().message;
            out.code = done.error().code;
        }
    }
    return out;
}

std::string data(const std::string& json) {
    return "data: " + json + "\n\n";
}
std::string delta(const std::string& members, const std::string& more = "") {
    return data(R"({"choices":[{"index":0,"delta":{)" + members + "}" + more + "}]}");
}
Heard hear(const std::string& text) {
    return hear(text, text.size() + 1);
}

Answer some_answer() {
    Answer out;
    out.text = "It is \xc3\xbc.";
    out.reasoning = "Let me think.";
    out.prompt_tokens = 11;
    out.cached_tokens = 3;
    out.completion_tokens = 9;
    out.reasoning_tokens = 4;
    out.prompt_s = 0.5;
    out.decode_s = 2;
    return out;
}

// What the server writes for an answer that comes in these pieces.
std::string written(const Answer& answer, const std::vector<AnswerStream::Piece>& pieces) {
    const auto request =
        test::parsed(test::chat, cat("{", test::least(test::chat),
                                     R"(,"stream":true,"stream_options":{"include_usage":true}})"));
    const auto writer = test::dialect(test::chat).writer(request, test::facts());
    std::string out = writer->begin();
    out += writer->keep_alive(2, 0) + writer->keep_alive(0, 0.5);
    for (const auto& piece : pieces) out += writer->piece(piece);
    return out + writer->end(answer);
}

}  // namespace

TEST_CASE("a server's stream becomes the answer that it was made of however it is cut") {
    const Answer wanted = some_answer();
    const std::string text = written(
        wanted,
        {{.reasoning = "Let me "}, {.reasoning = "think."}, {.content = "It is \xc3\xbc."}});
    for (size_t piece = 1; piece <= text.size(); ++piece) {
        CAPTURE(piece);
        Heard out = hear(text, piece);
        REQUIRE(out.error == "");
        CHECK(out.content == wanted.text);
        CHECK(out.reasoning == wanted.reasoning);
        CHECK(out.stream.ended());
        CHECK(out.stream.complete());
        const Answer& got = out.stream.answer();
        CHECK(got.text == wanted.text);
        CHECK(got.reasoning == wanted.reasoning);
        CHECK(got.finish == Finish::stop);
        CHECK_FALSE(got.unclosed);
        CHECK(got.prompt_tokens == 11);
        CHECK(got.cached_tokens == 3);
        CHECK(got.completion_tokens == 9);
        CHECK(got.reasoning_tokens == 4);
        CHECK(got.prompt_s == doctest::Approx(0.5));
        CHECK(got.decode_s == doctest::Approx(2));
    }
}

TEST_CASE("how a server's answer ended is known") {
    for (const Finish finish : {Finish::stop, Finish::length, Finish::loop}) {
        Answer answer = some_answer();
        answer.finish = finish;
        CHECK(hear(written(answer, {})).stream.answer().finish == finish);
    }
    Answer unclosed = some_answer();
    unclosed.cut_reasoning = true;
    unclosed.text.clear();
    unclosed.reasoning = "thoughts and more";
    Heard out = hear(written(unclosed, {{.reasoning = "thoughts and more"}}));
    CHECK(out.reasoning == "thoughts and more");
    CHECK(out.stream.finish({" more"}).content == "thoughts and");
    CHECK(out.stream.answer().text == "thoughts and");
    CHECK(out.stream.answer().reasoning == "");
    CHECK(out.stream.answer().reasoning_tokens == 0);
    CHECK(out.stream.answer().unclosed);
    unclosed.cut_reasoning = false;  // it ended, and nothing came behind it
    out = hear(written(unclosed, {{.reasoning = "thoughts"}}));
    CHECK(out.stream.finish({}).content == "");
    CHECK(out.stream.answer().reasoning == "thoughts");
    CHECK(out.stream.answer().reasoning_tokens == 4);
    CHECK_FALSE(out.stream.answer().unclosed);
    out = hear(delta(R"("reasoning":"a")"));
    CHECK(out.stream.finish({}).content == "a");
    Answer failed = some_answer();
    failed.error = Error{Code::numerical, "a logit is not finite"};
    out = hear(written(failed, {{.content = "It"}}));
    CHECK(out.error == "a logit is not finite");
    CHECK(out.code == Code::io);
    CHECK(out.stream.answer().text == "It");
    CHECK_FALSE(out.stream.complete());
}

TEST_CASE("streams of other servers are read") {
    const Heard out =
        hear(delta(R"("role":"assistant","content":null,"reasoning":"a")") +
             delta(R"("content":"b")") + delta(R"("content":"c")", R"(,"finish_reason":"stop")"));
    CHECK(out.error == "");
    CHECK(out.reasoning == "a");
    CHECK(out.content == "bc");
    CHECK(out.stream.complete());
    CHECK_FALSE(out.stream.ended());
}

TEST_CASE("hostile streams of a chat are refused by what is wrong with them") {
    const std::pair<std::string, const char*> cases[] = {
        {data("{"), "not that of a chat"},
        {data("[]"), "not a JSON object"},
        {data("{}"), "no choices"},
        {data(R"({"choices":{}})"), "no choices"},
        {data(R"({"choices":[{"delta":{"content":7}}]})"), "delta.content: expected a string"},
        {data(std::string(2000, '[')), "not that of a chat"},
        {delta("", R"(,"finish_reason":"tired")"), "not known here: tired"},
        {delta("", R"(,"finish_reason":1)"), "finish_reason"},
        {data(R"({"error":{"message":"no\u001b[31m","type":"invalid_request_error"}})"),
         "no\\x1b[31m"},
        {data(R"({"error":"because"})"), "because"},
        {data(R"({"error":{}})"), "without a reason"}};
    for (const auto& [text, why] : cases) {
        CAPTURE(text);
        const Heard out = hear(text);
        CAPTURE(out.error);
        CHECK(out.error.find(why) != std::string::npos);
        CHECK_FALSE(out.stream.complete());
    }
    CHECK(hear(data(R"({"error":{"message":"x","type":"invalid_request_error"}})")).code ==
          Code::usage);
    CHECK(hear(data(R"({"error":{"message":"x","type":"server_error"}})")).code == Code::io);
}

TEST_CASE("numbers of a hostile stream do no harm") {
    Heard out = hear(data(R"({"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":1e300,)"
                          R"("prompt_tokens_details":{"cached_tokens":99}},)"
                          R"("timings":{"prompt_ms":-1,"predicted_ms":1e308}})"));
    CHECK(out.error == "");
    const Answer& answer = out.stream.answer();
    CHECK(answer.prompt_tokens == 0);
    CHECK(answer.completion_tokens == 0);
    CHECK(answer.cached_tokens == 0);
    CHECK(answer.prompt_s == 0);
    CHECK(answer.decode_s < 1e9);
}

TEST_CASE("an endless answer of a server is refused") {
    ChatStream stream;
    const std::string chunk =
        R"({"choices":[{"delta":{"content":")" + std::string(1 << 20, 'x') + "\"}}]}";
    int taken = 0;
    for (; taken < 100; ++taken) {
        if (!stream.take(chunk)) break;
    }
    CHECK(taken == 64);
}

TEST_CASE("a server's refusal is one line with its words and the next step") {
    const auto refused = [](int status, const std::string& body, int64_t after = 0) {
        return refusal_of({status, body, false, after});
    };
    const std::string reason = R"({"error":{"message":"temperature: too hot"}})";
    CHECK(refused(400, reason).message == "temperature: too hot (HTTP 400)");
    CHECK(refused(400, reason).code == Code::usage);
    CHECK(refused(401, reason).code == Code::usage);
    CHECK(refused(401, reason).message.find("SLUICE_API_KEY") != std::string::npos);
    CHECK(refused(503, reason, 7).message == "temperature: too hot (HTTP 503); try again in 7 s");
    for (const int status : {302, 408, 429, 499, 500, 502, 503})
        CHECK(refused(status, "").code == Code::io);
    CHECK(refused(404, "<html>").message.find("no such server") != std::string::npos);
    CHECK(refused(200, "<html>").message.find("not an event stream") != std::string::npos);
    CHECK(refused(500, R"({"detail":"a\nb"})").message == "a\\x0ab (HTTP 500)");
    CHECK(refused(302, "").message.find("not followed") != std::string::npos);
}
