// Tools and response formats in the chat encoding.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "engine/text/prompt.h"
#include "io/text.h"
#include "tests/support/conversation.h"
#include "tests/support/messages.h"
#include "tests/support/paths.h"
#include "tests/support/tokenizers.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Ids = std::vector<int32_t>;

const std::string bos(deepseek::chat_tokens.begin), eos(deepseek::chat_tokens.end);
const std::string weather_tool =
    R"({"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}})";
const std::string weather_line =
    R"({"name": "weather", "parameters": {"type": "object", "properties": )"
    R"({"city": {"type": "string"}}}})";

const PromptWording& tiny_wording() {
    static const PromptWording wording = *PromptWording::load(
        {std::filesystem::path(models_folder) / "dsv41-tiny", "", ""}, deepseek::chat_wording);
    return wording;
}

// The block of tests/models/dsv41-tiny/encoding, for these lines.
std::string tool_block(const std::string& lines) {
    return cat(
        "## Tools\n\nThese functions can be asked for, with blocks such as:\n\n"
        "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"$NAME\">\n"
        "<｜DSML｜ parameter name=\"$KEY\" string=\"true|false\">$VALUE</｜DSML｜ parameter>\n"
        "</｜DSML｜ invoke>\n</｜DSML｜ calls>\n\n"
        "Plain text has string=\"true\"; everything else is JSON, such as {\"a\": 1}. "
        "Think between <think> and </think> first.\n\n### Functions\n\n",
        lines, "\n\nKeep to them.\n");
}

PromptOptions with_tools(PromptOptions options, const std::vector<std::string>& tools,
                         std::string response_format = "") {
    for (const std::string& tool : tools) options.tools.push_back(Json::parse(tool).value());
    options.response_format = std::move(response_format);
    options.wording = &tiny_wording();
    return options;
}

Ids encode(const std::vector<Message>& messages, const PromptOptions& options) {
    auto ids = encode_chat(tiny_tokenizer(), deepseek_v41_chat, messages, options);
    REQUIRE_MESSAGE(ids, (ids ? "" : ids.error().message));
    return *ids;
}

// The ids are those of `expected` as one string, with its control tokens.
void check(const std::vector<Message>& messages, const PromptOptions& options,
           const std::string& expected) {
    const Ids ids = encode(messages, options);
    CHECK(tiny_tokenizer().decode(ids) == bos + expected);
    CHECK(ids == tiny_tokenizer().encode_with_added(bos + expected));
}

int added_in(const Ids& ids) {
    return static_cast<int>(std::count_if(
        ids.begin(), ids.end(), [](int32_t id) { return tiny_tokenizer().is_added(id); }));
}

std::string message_of(const Result<Ids>& ids, Code code = Code::unsupported) {
    REQUIRE(!ids);
    CHECK(ids.error().code == code);
    CHECK(!mentions(ids.error().message, "\n"));
    return ids.error().message;
}

std::string refusal(const std::vector<Message>& messages, const PromptOptions& options,
                    Code code = Code::usage) {
    return message_of(encode_chat(tiny_tokenizer(), deepseek_v41_chat, messages, options), code);
}

const std::string calls_begin = "\n\n<｜DSML｜ calls>\n", calls_end = "</｜DSML｜ calls>";

std::string invoke_text(const std::string& name, const std::string& parameters) {
    return cat("<｜DSML｜ invoke name=\"", name, "\">\n", parameters, "\n</｜DSML｜ invoke>\n");
}
std::string parameter_text(const std::string& key, const char* is_string,
                           const std::string& value) {
    return cat("<｜DSML｜ parameter name=\"", key, "\" string=\"", is_string, "\">", value,
               "</｜DSML｜ parameter>");
}

const PromptOptions chat;

}  // namespace

TEST_CASE("tool prompt: the block follows the system content, or makes a system turn") {
    const std::string one = tool_block(weather_line);
    check({user("Hi")}, with_tools(chat, {weather_tool}),
          cat("<｜System｜>\n\n", one, "<｜User｜>Hi<｜Assistant｜></think>"));
    check({system_says("Be brief."), user("Hi")}, with_tools(chat, {weather_tool}),
          cat("<｜System｜>Be brief.\n\n", one, "<｜User｜>Hi<｜Assistant｜></think>"));
    check({user("Hi")}, with_tools(thinking(), {weather_tool}),
          cat("<｜System｜>", effort75, "\n\n", one, "<｜User｜>Hi<｜Assistant｜><think>"));
    check({system_says("A"), system_says("B"), user("C")},
          with_tools(chat, {weather_tool, R"({"name":"x::y","strict":true,"n":1.0})"}),
          cat("<｜System｜>A\n\n",
              tool_block(weather_line + "\n{\"name\": \"x::y\", \"strict\": true, \"n\": 1.0}"),
              "<｜System｜>B<｜User｜>C<｜Assistant｜></think>"));
}

TEST_CASE("tool prompt: the response format follows the tools") {
    const std::string schema = R"({"type": "object"})";
    const std::string form = cat("\n\n## Form of the answer\n\nOnly JSON of this form:\n", schema);
    check({user("Hi")}, with_tools(chat, {}, schema),
          cat("<｜System｜>", form, "<｜User｜>Hi<｜Assistant｜></think>"));
    check({system_says("S"), user("Hi")}, with_tools(thinking(), {weather_tool}, schema),
          cat("<｜System｜>", effort75, "S\n\n", tool_block(weather_line), form,
              "<｜User｜>Hi<｜Assistant｜><think>"));
}

TEST_CASE("tool prompt: calls and results") {
    const std::vector<ToolCall> calls{
        {"c1", "f", R"({"a":"x<y","s":""})"},
        {"c2", "ns::g", R"({"b":[1,{"k":null}],"c":true,"d":1e5,"e":18446744073709551616})"},
        {"c3", "none", ""}};
    const std::string text = cat(
        calls_begin,
        invoke_text("f",
                    cat(parameter_text("a", "true", "x<y"), "\n", parameter_text("s", "true", ""))),
        invoke_text("ns::g", cat(parameter_text("b", "false", "[1, {\"k\": null}]"), "\n",
                                 parameter_text("c", "false", "true"), "\n",
                                 parameter_text("d", "false", "100000.0"), "\n",
                                 parameter_text("e", "false", "18446744073709551616"))),
        invoke_text("none", ""), calls_end, eos);
    const std::vector<Message> turn{user("two"), assistant("I ask", "look", calls)};
    check(turn, chat, cat("<｜User｜>two<｜Assistant｜></think>I ask", text));
    check(turn, thinking(),
          cat("<｜System｜>", effort75, "<｜User｜>two<｜Assistant｜><think>look</think>I ask",
              text));
    // Results in any order, and what the user adds, are one turn.
    const std::string results =
        "<｜User｜><tool_result>one</tool_result>\n\n<tool_result>two</tool_result>\n\n"
        "<tool_result>three</tool_result>\n\nand?<｜Assistant｜></think>";
    for (std::vector<std::string> order : {std::vector<std::string>{"c1", "c2", "c3"},
                                           {"c3", "c1", "c2"},
                                           {"c2", "c3", "c1"},
                                           {"c3", "c2", "c1"}}) {
        std::vector<Message> all = turn;
        for (const std::string& id : order)
            all.push_back(tool(id == "c1" ? "one" : id == "c2" ? "two" : "three", id));
        all.push_back(user("and?"));
        check(all, chat, cat("<｜User｜>two<｜Assistant｜></think>I ask", text, results));
    }
}

TEST_CASE("tool prompt: with tools, earlier turns keep their reasoning") {
    const std::vector<ToolCall> call{{"1", "weather", R"({"city":"Bern"})"}};
    const std::vector<Message> messages{user("A"), assistant("", "r1", call), tool("sun", "1"),
                                        assistant("Sunny.", "r2"), user("B")};
    const std::string written =
        cat(calls_begin, invoke_text("weather", parameter_text("city", "true", "Bern")), calls_end,
            eos);
    const std::string result = "<｜User｜><tool_result>sun</tool_result><｜Assistant｜>";
    check(messages, with_tools(thinking(), {weather_tool}),
          cat("<｜System｜>", effort75, "\n\n", tool_block(weather_line),
              "<｜User｜>A<｜Assistant｜><think>r1</think>", written, result,
              "<think>r2</think>Sunny.", eos, "<｜User｜>B<｜Assistant｜><think>"));
    check(messages, thinking(),
          cat("<｜System｜>", effort75, "<｜User｜>A<｜Assistant｜></think>", written, result,
              "</think>Sunny.", eos, "<｜User｜>B<｜Assistant｜><think>"));
}

TEST_CASE("tool prompt: results without ids, several turns, partly answered calls") {
    const auto order = [](const std::vector<Message>& messages) {
        std::string out;
        for (int32_t id : encode(messages, chat)) out += tiny_tokenizer().bytes(id);
        std::string found;
        for (const char c : out) {
            if (c >= '0' && c <= '9') found += c;
        }
        return found;
    };
    const std::vector<ToolCall> abc{{"a", "f", "{}"}, {"b", "f", "{}"}, {"c", "f", "{}"}};
    CHECK(order({user("u"), assistant("", "", abc), tool("1"), tool("2"), tool("3")}) == "123");
    // Those with ids are sorted among the places that they have.
    CHECK(order({user("u"), assistant("", "", abc), tool("1", "c"), tool("2"), tool("3", "a")}) ==
          "321");
    CHECK(order({user("u"), assistant("", "", abc), tool("1", "c"), user("2"), tool("3", "b")}) ==
          "321");
    // Each turn is sorted for itself; ids may return after other calls.
    CHECK(order({user("u"), assistant("", "", abc), tool("1", "b"), tool("2", "a"),
                 assistant("", "", {{"b", "g", "{}"}, {"a", "g", "{}"}}), tool("3", "a"),
                 tool("4", "b")}) == "2143");
    // A later turn may answer what is open.
    CHECK(order({user("u"), assistant("", "", abc), tool("1", "c"), tool("2", "b"), assistant("m"),
                 user("u"), tool("3", "a")}) == "213");
}

TEST_CASE("tool prompt: what cannot be written is refused, naming the message") {
    const std::vector<ToolCall> call{{"a", "f", "{}"}};
    const auto after = [&](Message last) {
        return std::vector<Message>{user("u"), assistant("", "", call), std::move(last)};
    };
    says(refusal(after(tool("x", "b")), chat), {"message 3 (tool)", "tool_call_id 'b'"});
    says(refusal({tool("x", "b")}, chat), {"message 1 (tool)", "tool_call_id 'b'"});
    auto twice = after(tool("x", "a"));
    twice.push_back(tool("y", "a"));
    says(refusal(twice, chat), {"message 4 (tool)", "a second result", "'a'"});
    says(refusal({user("u"), assistant("", "", {call[0], call[0]})}, chat),
         {"message 2 (assistant)", "two tool calls with the id 'a'"});
    Message calling = user("u");
    calling.calls = call;
    says(refusal({calling}, chat), {"message 1 (user)", "only assistant"});
    Message result = user("u");
    result.call_id = "a";
    says(refusal({result}, chat), {"message 1 (user)", "only tool messages"});
    for (const char* arguments : {"{", "[]", "1", "null", "{\"a\":1,\"a\":2}", "{} x"}) {
        CAPTURE(arguments);
        says(refusal({user("u"), assistant("", "", {call[0], {"b", "g", arguments}})}, chat),
             {"message 2 (assistant): tool call 2 (g): the arguments are not a JSON object"});
    }
    says(refusal({user("u"), assistant("", "", {{"", "", "{}"}})}, chat),
         {"message 2 (assistant): tool call 1", "no name"});
}

TEST_CASE("tool prompt: tools need names, wording and a marker") {
    PromptOptions options = with_tools(chat, {weather_tool});
    for (const char* bad : {"[]", "{}", "{\"name\":1}"})
        says(refusal({user("u")}, with_tools(chat, {weather_tool, bad})),
             {"tool 2: expected an object with a name"});
    options.wording = nullptr;
    says(refusal({user("u")}, options, Code::not_found), {"encoding/encoding*.py"});
    PromptOptions form;
    form.response_format = "{}";
    says(refusal({user("u")}, form, Code::not_found), {"encoding/encoding*.py"});

    PromptWording unknown(deepseek::chat_wording);
    REQUIRE(unknown.add("encoding/e.py", "TOOLS_TEMPLATE = '{tool_schemas} {other}'"));
    options.wording = &unknown;
    says(refusal({user("u")}, options, Code::unsupported),
         {"encoding/e.py: TOOLS_TEMPLATE: unknown field {other}"});
    PromptWording without(deepseek::chat_wording);
    REQUIRE(without.add("encoding/e.py", "TOOLS_TEMPLATE = 'no tools'"));
    options.wording = &without;
    says(refusal({user("u")}, options, Code::unsupported), {"no field {tool_schemas}"});

    constexpr ToolSyntax absent{"｜NONE｜", " calls", " invoke", " parameter", "", ""};
    options = with_tools(chat, {weather_tool});
    ChatFormat other = deepseek_v41_chat;
    other.tools = &absent;
    const auto needs = [&](const std::vector<Message>& messages) {
        return message_of(encode_chat(tiny_tokenizer(), other, messages, options));
    };
    says(needs({user("u")}),
         {"has no token '｜NONE｜', which tool calls need: this model does not support tools"});
    options.tools.clear();
    says(needs({user("u"), assistant("", "", {{"", "f", ""}})}),
         {"'｜NONE｜', which tool calls need"});
    CHECK(encode_chat(tiny_tokenizer(), other, {user("u"), assistant("a")}, options));
    CHECK(!forced_call_prefix(tiny_tokenizer(), absent, ""));
    CHECK(!encode_chat(random_tokenizer(), deepseek_v41_chat, {user("u")},
                       with_tools(chat, {weather_tool})));
}

TEST_CASE("tool prompt: no name, argument, declaration or schema becomes a control token") {
    std::vector<std::string> hostile{"</｜DSML｜ parameter>", "<｜DSML｜ calls>", "｜", "<think"};
    for (int32_t id = 0; id < tiny_tokenizer().size(); ++id) {
        if (tiny_tokenizer().is_added(id)) hostile.emplace_back(tiny_tokenizer().bytes(id));
    }
    std::string mixed;
    for (const std::string& text : hostile) mixed += text;
    hostile.push_back(mixed);
    const auto conversation = [](const std::string& text, size_t place) {
        const auto at = [&](size_t i) { return i == place ? text : "x"; };
        const std::string arguments =
            cat("{", json_quote(at(0)), ":", json_quote(at(1)), ",\"y\":{", json_quote(at(2)), ":[",
                json_quote(at(3)), "]}}");
        const std::string declared =
            cat("{\"name\":", json_quote(at(4)), ",\"d\":", json_quote(at(5)), "}");
        return encode({user("u"), assistant("c", "r", {{at(6), at(7), arguments}}), tool(at(8))},
                      with_tools(thinking(), {declared}, at(9)));
    };
    const int controls = added_in(conversation("x", 100));
    // Head and tool block, question, call, result: none of them from the texts above.
    CHECK(controls == 2 + 8 + 3 + (1 + 8 + 1) + 3);
    for (const std::string& text : hostile) {
        for (size_t place = 0; place < 10; ++place) {
            CAPTURE(text);
            CAPTURE(place);
            const Ids ids = conversation(text, place);
            CHECK(added_in(ids) == controls);
            if (place != 6) CHECK(mentions(tiny_tokenizer().decode(ids), text));
        }
    }
}

TEST_CASE("tool prompt: the ids that a forced call begins with") {
    const auto prefix = [](std::string_view name) {
        return forced_call_prefix(tiny_tokenizer(), deepseek_v41_tools, name).value();
    };
    const Ids any = prefix("");
    const Ids named = prefix("weather");
    const std::string begin = "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"";
    CHECK(any == tiny_tokenizer().encode_with_added(begin));
    CHECK(named == tiny_tokenizer().encode_with_added(begin + "weather\">\n"));
    // They are how a written call begins.
    const Ids call =
        encode({user("u"), assistant("", "", {{"", "weather", R"({"city":"B"})"}})}, chat);
    CHECK(std::search(call.begin(), call.end(), any.begin(), any.end()) != call.end());
    CHECK(std::search(call.begin(), call.end(), named.begin(), named.end()) != call.end());
    CHECK(added_in(prefix("a<think>｜DSML｜")) == 2);
}
