#include "tools/answer/answer_stream.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "engine/model/deepseek_v41/chat.h"
#include "tests/support/tokenizers.h"

using namespace sluice;
using test::tiny_tokenizer;

namespace {

struct Seen {
    std::string reasoning, content, after_calls, malformed;
    std::vector<ToolCall> calls;
    bool ended;
    Finish finish;
    uint64_t tokens;
};

// In the text, the names of control tokens stand for the tokens.
Seen stream(const std::string& text, StreamOptions options = {}) {
    options.tools = &deepseek_v41_tools;
    options.tokens = &deepseek::chat_tokens;
    const std::vector<int32_t> ends{1};
    auto answer = AnswerStream::create(tiny_tokenizer(), ends, options);
    REQUIRE(answer);
    Seen seen{};
    const auto take = [&](const AnswerStream::Piece& piece) {
        seen.reasoning += piece.reasoning;
        (seen.calls.empty() ? seen.content : seen.after_calls) += piece.content;
        seen.calls.insert(seen.calls.end(), piece.calls.begin(), piece.calls.end());
    };
    for (int32_t id : tiny_tokenizer().encode_with_added(text)) {
        take(answer->push(id));
        if (answer->ended()) break;
    }
    seen.ended = answer->ended();
    take(answer->finish());
    seen.finish = answer->ended_by();
    seen.malformed = answer->malformed_call();
    seen.tokens = answer->tokens();
    return seen;
}

const std::string call =
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n"
    "<｜DSML｜ parameter name=\"a\" string=\"true\">STOP</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

}  // namespace

TEST_CASE("answer stream: complete tool calls end the answer") {
    const Seen seen = stream("I ask" + call + "<｜end▁of▁sentence｜>");
    CHECK(seen.content == "I ask");
    REQUIRE(seen.calls.size() == 1);
    CHECK(seen.calls[0].id == "call_1");
    CHECK(seen.calls[0].arguments == R"({"a": "STOP"})");
    CHECK(seen.ended);
    CHECK(seen.finish == Finish::tool_calls);
    CHECK(std::string(finish_name(seen.finish)) == "tool_calls");
    CHECK(seen.malformed.empty());
    CHECK(seen.tokens == tiny_tokenizer().encode_with_added("I ask" + call).size());
    StreamOptions named;
    named.call_id_prefix = "x-";
    CHECK(stream(call, named).calls[0].id == "x-1");
}

TEST_CASE("answer stream: stop strings see the content, not the calls") {
    StreamOptions options;
    options.stop = {"STOP", "sky"};
    const Seen seen = stream("I ask s" + call, options);
    CHECK(seen.content == "I ask s");  // what was held back comes before the calls
    CHECK(seen.after_calls.empty());
    CHECK(seen.calls.size() == 1);
    CHECK(seen.finish == Finish::tool_calls);
    const Seen stopped = stream("the sky" + call, options);
    CHECK(stopped.content == "the ");
    CHECK(stopped.calls.empty());
    CHECK(stopped.finish == Finish::stop);
    // A block that turns out to be text is content.
    const Seen text = stream("I ask" + call.substr(0, call.size() - 1) + " x", options);
    CHECK(text.content ==
          "I ask\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n"
          "<｜DSML｜ parameter name=\"a\" string=\"true\">");
    CHECK(text.finish == Finish::stop);
}

TEST_CASE("answer stream: an unfinished or malformed call is content with a note") {
    for (const std::string& text : {call.substr(0, call.size() - 1), call.substr(0, 40)}) {
        for (const std::string& end : {std::string(), std::string(deepseek::chat_tokens.end)}) {
            const Seen seen = stream("I ask" + text + end);
            CHECK(seen.content == "I ask" + text);
            CHECK(seen.calls.empty());
            CHECK(seen.malformed == "it does not end");
            CHECK(seen.finish == Finish::stop);
            CHECK(seen.ended == !end.empty());
        }
    }
}
