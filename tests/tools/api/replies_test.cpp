// Replies and streams, byte by byte.
#include <limits>

#include "io/this_build.h"
#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// In expected texts: OPENAI for the members that each object begins with, TIMES for timings.
std::string filled(std::string text, std::string_view id, std::string_view object) {
    const std::string openai =
        cat(R"("id":")", id, R"(","object":")", object, R"(","created":1700000000,"model":"tiny",)",
            R"("system_fingerprint":"sluice-)", build_version(), "-", build_commit(), '"');
    const std::string times =
        R"("timings":{"cache_n":12,"prompt_n":8,"prompt_ms":500,"prompt_per_token_ms":62.5,)"
        R"("prompt_per_second":16,"predicted_n":8,"predicted_ms":2000,)"
        R"("predicted_per_token_ms":250,"predicted_per_second":4})";
    for (const auto& [mark, full] : {std::pair("OPENAI", openai), std::pair("TIMES", times)}) {
        const std::string_view name = mark;
        for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
            text.replace(at, name.size(), full);
        }
    }
    return text;
}

std::string events(std::initializer_list<std::string_view> lines) {
    std::string out;
    for (const auto line : lines) out += cat(line, "\n\n");
    return out;
}

Answer answer() {
    Answer out;
    out.text = "Hi \xff\n";
    out.reasoning = "Let me see.";
    out.prompt_tokens = 20;
    out.cached_tokens = 12;
    out.completion_tokens = 9;
    out.reasoning_tokens = 4;
    out.prompt_s = 0.5;
    out.decode_s = 2;
    return out;
}

Answer answer_with_calls() {
    Answer out = answer();
    out.finish = Finish::tool_calls;
    out.calls = {{"", "f", R"({"x":1})"}, {"given", "g", "{}"}};
    return out;
}

std::unique_ptr<ReplyWriter> writer(std::string_view path, std::string_view members = "") {
    auto request = parse_with(path, members);
    REQUIRE_MESSAGE(request, (request ? "" : request.error().message));
    request->answer.sampler = {};
    return dialect(path).writer(*request, facts());
}

std::string whole(std::string_view path, const Answer& answer, std::string_view members = "") {
    return writer(path, members)->whole(answer);
}

// The stream of an answer in the pieces that a model might give.
std::string stream(std::string_view path, const Answer& answer, std::string_view members = "") {
    const auto out = writer(path, members);
    std::string bytes = out->begin();
    if (!answer.reasoning.empty()) {
        bytes += out->piece({.reasoning = answer.reasoning.substr(0, 3)});
        bytes += out->piece({.reasoning = answer.reasoning.substr(3)});
    }
    bytes += out->piece({});
    bytes += out->piece({.content = answer.text, .logprobs = answer.logprobs});
    for (const ToolCall& call : answer.calls) bytes += out->piece({.calls = {call}});
    return bytes + out->end(answer);
}

const std::string usage = R"("usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,)"
                          R"("prompt_tokens_details":{"cached_tokens":12},)"
                          R"("completion_tokens_details":{"reasoning_tokens":4}})";
const std::string anthropic_usage =
    R"("usage":{"input_tokens":8,"cache_creation_input_tokens":0,"cache_read_input_tokens":12,)"
    R"("output_tokens":9,"output_tokens_details":{"thinking_tokens":4}})";

}  // namespace

TEST_CASE("chat: a whole reply") {
    const std::string id = "chatcmpl-0000000000000abc";
    CHECK(
        whole(chat, answer()) ==
        filled(R"({OPENAI,"choices":[{"index":0,"message":{"role":"assistant","content":"Hi �\n",)"
               R"("refusal":null,"reasoning_content":"Let me see."},"logprobs":null,)"
               R"("finish_reason":"stop"}],)" +
                   usage + ",TIMES}",
               id, "chat.completion"));
    Answer calls = answer_with_calls();
    calls.text.clear();
    calls.reasoning.clear();
    CHECK(
        whole(chat, calls) ==
        filled(R"({OPENAI,"choices":[{"index":0,"message":{"role":"assistant","content":null,)"
               R"("refusal":null,"tool_calls":[{"id":"call_0000000000000abc_0","type":"function",)"
               R"("function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"given",)"
               R"("type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,)"
               R"("finish_reason":"tool_calls"}],)" +
                   usage + ",TIMES}",
               id, "chat.completion"));
}

TEST_CASE("chat: a stream") {
    const std::string begin = R"(data: {OPENAI,"choices":[{"index":0,"delta":)",
                      end = R"(,"logprobs":null,"finish_reason":null}]})";
    CHECK(stream(chat, answer_with_calls()) ==
          filled(events({begin + R"({"role":"assistant","content":""})" + end,
                         begin + R"({"reasoning_content":"Let"})" + end,
                         begin + R"({"reasoning_content":" me see."})" + end,
                         begin + R"({"content":"Hi �\n"})" + end,
                         begin +
                             R"({"tool_calls":[{"index":0,"id":"call_0000000000000abc_0",)"
                             R"("type":"function","function":{"name":"f",)"
                             R"("arguments":"{\"x\":1}"}}]})" +
                             end,
                         begin +
                             R"({"tool_calls":[{"index":1,"id":"given","type":"function",)"
                             R"("function":{"name":"g","arguments":"{}"}}]})" +
                             end,
                         begin + R"({},"logprobs":null,"finish_reason":"tool_calls"}],TIMES})",
                         "data: [DONE]"}),
                 "chatcmpl-0000000000000abc", "chat.completion.chunk"));
}

TEST_CASE("chat: usage in a stream is a chunk of its own, if asked for") {
    const std::string bytes =
        stream(chat, answer(), R"("stream":true,"stream_options":{"include_usage":true})");
    const auto tail =
        filled(events({R"(,"logprobs":null,"finish_reason":"stop"}],"usage":null,TIMES})",
                       R"(data: {OPENAI,"choices":[],)" + usage + "}", "data: [DONE]"}),
               "chatcmpl-0000000000000abc", "chat.completion.chunk");
    CHECK(bytes.ends_with(tail));
    CHECK(bytes.find(R"("finish_reason":null}],"usage":null})") != std::string::npos);
}

TEST_CASE("completions: whole and as a stream") {
    Answer plain = answer();
    plain.reasoning.clear();
    plain.finish = Finish::length;
    const std::string id = "cmpl-0000000000000abc", object = "text_completion";
    const std::string choice = R"({OPENAI,"choices":[{"index":0,"text":)";
    CHECK(whole(completions, plain) ==
          filled(choice + R"("Hi �\n","logprobs":null,"finish_reason":"length"}],)" + usage +
                     ",TIMES}",
                 id, object));
    CHECK(stream(completions, plain) ==
          filled(
              events({"data: " + choice + R"("Hi �\n","logprobs":null,"finish_reason":null}]})",
                      "data: " + choice + R"("","logprobs":null,"finish_reason":"length"}],TIMES})",
                      "data: [DONE]"}),
              id, object));
}

TEST_CASE("anthropic: whole") {
    CHECK(whole(anthropic, answer_with_calls()) ==
          R"({"id":"msg_0000000000000abc","type":"message","role":"assistant","model":"tiny",)"
          R"("content":[{"type":"thinking","thinking":"Let me see.","signature":"unsigned"},)"
          R"({"type":"text","text":"Hi �\n"},{"type":"tool_use","id":"toolu_0000000000000abc_0",)"
          R"("name":"f","input":{"x":1}},{"type":"tool_use","id":"given","name":"g","input":{}}],)"
          R"("stop_reason":"tool_use","stop_sequence":null,)" +
              anthropic_usage + "}");
    Answer stopped = answer();
    stopped.stop = "END";
    CHECK(
        whole(anthropic, stopped).find(R"("stop_reason":"stop_sequence","stop_sequence":"END")") !=
        std::string::npos);
    CHECK(whole(anthropic, answer()).find(R"("stop_reason":"end_turn","stop_sequence":null)") !=
          std::string::npos);
    stopped = answer();
    stopped.finish = Finish::length;
    CHECK(whole(anthropic, stopped).find(R"("stop_reason":"max_tokens","stop_sequence":null)") !=
          std::string::npos);
}

TEST_CASE("anthropic: a stream") {
    const auto event = [](std::string_view name, std::string_view members) {
        return cat("event: ", name, "\ndata: {\"type\":\"", name, "\"", members, "}\n\n");
    };
    const auto start = [&](int index, std::string_view block) {
        return event("content_block_start",
                     cat(",\"index\":", index, ",\"content_block\":", block));
    };
    const auto delta = [&](int index, std::string_view delta) {
        return event("content_block_delta", cat(",\"index\":", index, ",\"delta\":", delta));
    };
    const auto stop = [&](int index) {
        return event("content_block_stop", cat(",\"index\":", index));
    };
    CHECK(
        stream(anthropic, answer_with_calls()) ==
        event("message_start",
              R"(,"message":{"id":"msg_0000000000000abc","type":"message","role":"assistant",)"
              R"("model":"tiny","content":[],"stop_reason":null,"stop_sequence":null,)"
              R"("usage":{"input_tokens":7,"cache_creation_input_tokens":0,)"
              R"("cache_read_input_tokens":0,"output_tokens":0,)"
              R"("output_tokens_details":{"thinking_tokens":0}}})") +
            start(0, R"({"type":"thinking","thinking":"","signature":""})") +
            delta(0, R"({"type":"thinking_delta","thinking":"Let"})") +
            delta(0, R"({"type":"thinking_delta","thinking":" me see."})") +
            delta(0, R"({"type":"signature_delta","signature":"unsigned"})") + stop(0) +
            start(1, R"({"type":"text","text":""})") +
            delta(1, R"({"type":"text_delta","text":"Hi �\n"})") + stop(1) +
            start(2,
                  R"({"type":"tool_use","id":"toolu_0000000000000abc_0","name":"f","input":{}})") +
            delta(2, R"({"type":"input_json_delta","partial_json":"{\"x\":1}"})") + stop(2) +
            start(3, R"({"type":"tool_use","id":"given","name":"g","input":{}})") +
            delta(3, R"({"type":"input_json_delta","partial_json":"{}"})") + stop(3) +
            event("message_delta", R"(,"delta":{"stop_reason":"tool_use","stop_sequence":null},)" +
                                       anthropic_usage) +
            event("message_stop", ""));
}

TEST_CASE("a client that wants one call at a time gets the first alone") {
    const std::string_view chat_members = R"("parallel_tool_calls":false)";
    CHECK(whole(chat, answer_with_calls(), chat_members).find("given") == std::string::npos);
    CHECK(stream(chat, answer_with_calls(), chat_members).find("given") == std::string::npos);
    CHECK(stream(chat, answer_with_calls(), chat_members).find("abc_0") != std::string::npos);
    CHECK(whole(responses, answer_with_calls(), chat_members).find("given") == std::string::npos);
    CHECK(stream(responses, answer_with_calls(), chat_members).find("given") == std::string::npos);
    const std::string_view members =
        R"("tool_choice":{"type":"auto","disable_parallel_tool_use":true})";
    CHECK(whole(anthropic, answer_with_calls(), members).find("given") == std::string::npos);
    CHECK(stream(anthropic, answer_with_calls(), members).find("given") == std::string::npos);
}

TEST_CASE("an answer that is not complete says so in its finish and in a warning") {
    struct Case {
        Finish finish;
        bool malformed;
        std::string openai, anthropic, status, warning;
    };
    const Case cases[] = {
        {Finish::interrupted, false, "length", "max_tokens", "incomplete",
         "the answer was interrupted"},
        {Finish::loop, false, "length", "max_tokens", "incomplete",
         "the answer repeated itself and was ended"},
        {Finish::stop, true, "stop", "end_turn", "completed",
         "a tool call could not be read: it is left in the text"},
    };
    for (const Case& c : cases) {
        Answer cut = answer();
        cut.finish = c.finish;
        cut.malformed_call = c.malformed;
        const std::string warning = cat(R"("warning":")", c.warning, '"');
        for (const auto& bytes : {whole(chat, cut), stream(chat, cut), whole(completions, cut)}) {
            CHECK(bytes.find(cat(R"("finish_reason":")", c.openai, '"')) != std::string::npos);
            CHECK(bytes.find(warning) != std::string::npos);
        }
        for (const auto& bytes : {whole(anthropic, cut), stream(anthropic, cut)}) {
            CHECK(bytes.find(cat(R"("stop_reason":")", c.anthropic, '"')) != std::string::npos);
            CHECK(bytes.find(warning) != std::string::npos);
        }
        for (const auto& bytes : {whole(responses, cut), stream(responses, cut)}) {
            CHECK(bytes.find(cat(R"("status":")", c.status, R"(","error":null)")) !=
                  std::string::npos);
            CHECK(bytes.find(warning) != std::string::npos);
        }
        CHECK(stream(responses, cut).find(cat("event: response.", c.status)) != std::string::npos);
    }
    CHECK(whole(chat, answer()).find("warning") == std::string::npos);
}

TEST_CASE("keep-alives are comments, or the ping of Anthropic's API") {
    for (const auto path : {chat, completions, responses}) {
        const auto out = writer(path);
        CHECK(out->keep_alive(3, 0) == ": queued, place 3\n\n");
        CHECK(out->keep_alive(0, 0) == ": reading the prompt 0 %\n\n");
        CHECK(out->keep_alive(0, 0.378) == ": reading the prompt 37 %\n\n");
        CHECK(out->keep_alive(0, 0.9999) == ": reading the prompt 99 %\n\n");
        CHECK(out->keep_alive(0, 1) == ": working\n\n");
    }
    CHECK(writer(anthropic)->keep_alive(3, 0.5) == "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

TEST_CASE("log-probabilities: token texts, bytes, and offsets in characters") {
    const Tokenizer& tokenizer = tiny_tokenizer();
    const auto byte = [&](const char* text) {
        const auto ids = tokenizer.encode(text);
        REQUIRE(ids.size() == 1);
        return ids[0];
    };
    const int32_t half = byte("\xe2"), a = byte("a");
    Answer out;
    out.text = "a\xe2";
    out.logprobs = {{{a, -0.5}, {{a, -0.5}, {half, -std::numeric_limits<double>::infinity()}}},
                    {{half, -2}, {}},
                    {{a, 0}, {}}};
    const std::string letter = R"({"token":"a","logprob":-0.5,"bytes":[97])";
    const std::string list =
        cat(R"("logprobs":{"content":[)", letter, R"(,"top_logprobs":[)", letter,
            R"(},{"token":"�","logprob":-9999,"bytes":[226]}]},)"
            R"({"token":"�","logprob":-2,"bytes":[226],"top_logprobs":[]},)"
            R"({"token":"a","logprob":0,"bytes":[97],"top_logprobs":[]}],"refusal":null})");
    const std::string_view asked = R"("logprobs":true,"top_logprobs":2)";
    CHECK(whole(chat, out, asked).find(list) != std::string::npos);
    CHECK(stream(chat, out, asked).find(list) != std::string::npos);
    CHECK(whole(chat, out).find(R"("logprobs":null)") != std::string::npos);
    const std::string columns =
        R"("logprobs":{"tokens":["a","bytes:\\xe2","a"],"token_logprobs":[-0.5,-2,0],)"
        R"("top_logprobs":[{"a":-0.5,"bytes:\\xe2":-9999},{},{}],"text_offset":[0,1,2]})";
    CHECK(whole(completions, out, R"("logprobs":2)").find(columns) != std::string::npos);
    CHECK(stream(completions, out, R"("logprobs":2)").find(columns) != std::string::npos);
    const auto in_response = whole(responses, out, R"("top_logprobs":2)");
    CHECK(in_response.find(R"("annotations":[],"logprobs":[)" + letter) != std::string::npos);
    CHECK(stream(responses, out, R"("top_logprobs":2)")
              .find(R"("delta":"a�","logprobs":[)" + letter) != std::string::npos);
}

TEST_CASE("an answer that failed is an error, whole and in a stream") {
    Answer failed = answer();
    failed.finish = Finish::error;
    failed.error = Error{Code::io, "shard 7: cannot read"};
    const std::string openai =
        R"({"error":{"message":"shard 7: cannot read","type":"server_error","param":null,)"
        R"("code":null}})";
    for (const auto path : {chat, completions}) {
        CHECK(whole(path, failed) == openai);
        CHECK(stream(path, failed).ends_with(events({"data: " + openai, "data: [DONE]"})));
    }
    CHECK(whole(responses, failed) == openai);
    const std::string bytes = stream(responses, failed);
    const size_t last = bytes.find("event: response.failed\n");
    REQUIRE(last != std::string::npos);
    CHECK(bytes.find(R"("error":{"code":"server_error","message":"shard 7: cannot read"})", last) !=
          std::string::npos);
    const std::string other =
        R"({"type":"error","error":{"type":"api_error","message":"shard 7: cannot read"}})";
    CHECK(whole(anthropic, failed) == other);
    CHECK(stream(anthropic, failed).ends_with(cat("event: error\ndata: ", other, "\n\n")));
}

TEST_CASE("errors have each API's type for every status") {
    struct Case {
        int status;
        std::string openai, anthropic;
    };
    const Case cases[] = {
        {400, R"("type":"invalid_request_error","param":null,"code":null)",
         "invalid_request_error"},
        {401, R"("type":"authentication_error","param":null,"code":"invalid_api_key")",
         "authentication_error"},
        {403, R"("type":"permission_error","param":null,"code":null)", "permission_error"},
        {404, R"("type":"invalid_request_error","param":null,"code":"not_found")",
         "not_found_error"},
        {405, R"("type":"invalid_request_error","param":null,"code":"method_not_allowed")",
         "invalid_request_error"},
        {408, R"("type":"timeout_error","param":null,"code":"request_timeout")", "timeout_error"},
        {413, R"("type":"invalid_request_error","param":null,"code":"request_too_large")",
         "request_too_large"},
        {418, R"("type":"invalid_request_error","param":null,"code":null)",
         "invalid_request_error"},
        {429, R"("type":"rate_limit_error","param":null,"code":"rate_limit_exceeded")",
         "rate_limit_error"},
        {499, R"("type":"request_cancelled","param":null,"code":null)", "api_error"},
        {500, R"("type":"server_error","param":null,"code":null)", "api_error"},
        {503, R"("type":"overloaded_error","param":null,"code":"overloaded")", "overloaded_error"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.status);
        for (const auto path : {chat, completions, responses}) {
            CHECK(dialect(path).error(c.status, "no \"x\"") ==
                  cat(R"({"error":{"message":"no \"x\"",)", c.openai, "}}"));
        }
        CHECK(dialect(anthropic).error(c.status, "no") ==
              cat(R"({"type":"error","error":{"type":")", c.anthropic, R"(","message":"no"}})"));
    }
    const auto param = [](std::string_view message) {
        const std::string body = dialect(chat).error(400, message);
        const size_t begin = body.find("\"param\":") + 8;
        return body.substr(begin, body.find(",\"code\"") - begin);
    };
    CHECK(param("messages[0].content: expected a string") == "\"messages[0].content\"");
    CHECK(param("the request body is not valid JSON: line 1") == "null");
    CHECK(param("n") == "null");
    CHECK(param(": x") == "null");
}

TEST_CASE("the status of an error tells whose fault it is") {
    CHECK(http_status(Code::usage) == 400);
    CHECK(http_status(Code::unsupported) == 400);
    CHECK(http_status(Code::interrupted) == 499);
    CHECK(http_status(Code::no_memory) == 503);
    for (const Code code : {Code::not_found, Code::corrupt, Code::io, Code::device, Code::mismatch,
                            Code::numerical}) {
        CHECK(http_status(code) == 500);
    }
}
