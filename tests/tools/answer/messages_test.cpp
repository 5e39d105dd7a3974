#include "tools/answer/messages.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "io/text.h"
#include "tests/support/messages.h"

using namespace sluice;

namespace {

std::vector<Message> parsed(const std::string& text) {
    auto messages = parse_messages("in", text);
    REQUIRE_MESSAGE(messages, (messages ? "" : messages.error().message));
    return *messages;
}

std::string refusal(const std::string& text) {
    const auto messages = parse_messages("in", text);
    REQUIRE(!messages);
    CHECK(messages.error().code == Code::usage);
    return messages.error().message;
}

}  // namespace

TEST_CASE("messages: tool calls, results and other names") {
    const auto messages = parsed(R"([
        {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"user","content":[],"task":"title"},
        {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
            {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
            {"function":{"name":"g","arguments":{"b":[1,2.0]}}},
            {"function":{"name":"h"}}]},
        {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"}]},
        {"role":"assistant","content":"x","reasoning":"a","reasoning_content":"b","name":"me"}])");
    REQUIRE(messages.size() == 5);
    CHECK(messages[0].role == Role::system);
    CHECK(messages[0].content == "a\n\nb");
    CHECK(messages[1].content.empty());
    CHECK(messages[1].task == "title");
    CHECK(messages[2].content.empty());
    CHECK(messages[2].reasoning == "hm");
    REQUIRE(messages[2].calls.size() == 3);
    CHECK(messages[2].calls[0].id == "c1");
    CHECK(messages[2].calls[0].name == "f");
    CHECK(messages[2].calls[0].arguments == "{\"a\": 1}");
    CHECK(messages[2].calls[1].id.empty());
    CHECK(messages[2].calls[1].arguments == "{\"b\": [1, 2.0]}");
    CHECK(messages[2].calls[2].arguments.empty());
    CHECK(messages[3].call_id == "c1");
    CHECK(messages[3].content == "r");
    CHECK(messages[4].reasoning == "a");
    // Written and read again.
    const std::string written = messages_json(messages);
    CHECK(messages_json(parsed(written)) == written);
    CHECK(mentions(written, R"("tool_calls":[{"id":"c1","type":"function",)"));
    CHECK(mentions(written, R"("tool_call_id":"c1")"));
    CHECK(mentions(written, R"("task":"title")"));
    CHECK(messages_json({{Role::user, "u"}}) ==
          "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}\n");
}

TEST_CASE("messages: what is wrong is named") {
    const auto message = [](const std::string& members) {
        return refusal(cat("[{", members, "}]"));
    };
    CHECK(mentions(message(R"("role":"user","content":"a","contents":"b")"),
                   "message 0: unknown field \"contents\""));
    CHECK(mentions(message(R"("role":"assistant","content":"a","function_call":{})"),
                   "function_call"));
    CHECK(parsed(R"([{"role":"user","content":"a","refusal":null}])").size() == 1);
    says(message(R"("role":"user")"), {"in: message 0: ", "content: missing"});
    says(message(R"("role":"assistant","content":null,"tool_calls":[])"), {"content: expected"});
    says(message(R"("role":"user","content":[{"type":"image_url","image_url":{}}])"),
         {"content[0].type: \"image_url\" is not supported"});
    says(message(R"("role":"user","content":[{"type":"text"}])"), {"content[0].text: missing"});
    says(message(R"("role":"user","content":["x"])"), {"content[0].type"});
    says(message(R"("role":"user","content":7)"), {"content: expected a string"});
    const auto call = [&](const std::string& members) {
        return message(cat(R"("role":"assistant","content":"","tool_calls":[{)", members, "}]"));
    };
    says(call(R"("type":"custom","function":{"name":"f"})"),
         {"tool_calls[0].type: \"custom\" is not supported"});
    says(call(R"("type":"function")"), {"tool_calls[0].function.name: missing"});
    says(call(R"("id":7,"function":{"name":"f"})"), {"tool_calls[0].id: expected a string"});
    says(call(R"("function":{"name":"f","arguments":[]})"),
         {"tool_calls[0].function.arguments: expected a string"});
    says(message(R"("role":"assistant","content":"","tool_calls":{})"),
         {"tool_calls: expected a list"});
    says(message(R"("role":"tool","content":"","tool_call_id":7)"),
         {"tool_call_id: expected a string"});
}
