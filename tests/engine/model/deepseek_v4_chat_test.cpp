#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "engine/model/deepseek_v4/chat.h"
#include "engine/text/answer_parser.h"
#include "engine/text/prompt.h"
#include "io/file.h"
#include "io/json.h"
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
const PromptOptions chat, thinks{PromptMode::thinking};

Ids encode(const std::vector<Message>& messages, const PromptOptions& options = {}) {
    auto ids = encode_chat(v4_tokenizer(), deepseek_v4_chat, messages, options);
    REQUIRE_MESSAGE(ids, (ids ? "" : ids.error().message));
    return *ids;
}

// The ids are those of `expected` as one string, with its control tokens.
void check(const std::vector<Message>& messages, const PromptOptions& options,
           const std::string& expected) {
    const Ids ids = encode(messages, options);
    CHECK(v4_tokenizer().decode(ids) == expected);
    CHECK(ids == v4_tokenizer().encode_with_added(expected));
}

std::string refusal(const std::vector<Message>& messages, const PromptOptions& options,
                    Code code = Code::usage) {
    const auto ids = encode_chat(v4_tokenizer(), deepseek_v4_chat, messages, options);
    REQUIRE(!ids);
    CHECK(ids.error().code == code);
    CHECK(!mentions(ids.error().message, "\n"));
    return ids.error().message;
}

std::string text_of(const Json& json, const char* name) {
    return json[name].is_null() ? "" : json[name].string().value();
}

Message read_message(const Json& json) {
    Message out{parse_role(text_of(json, "role")).value(), text_of(json, "content"),
                text_of(json, "reasoning_content")};
    out.call_id = text_of(json, "tool_call_id");
    out.task = text_of(json, "task");
    const Json calls = json["tool_calls"];
    for (size_t i = 0; !calls.is_null() && i < calls.size(); ++i) {
        const Json call = calls.at(i), function = call["function"];
        out.calls.push_back(
            {text_of(call, "id"), text_of(function, "name"), text_of(function, "arguments")});
    }
    return out;
}

std::vector<Message> read_messages(const Json& list) {
    std::vector<Message> out;
    for (size_t i = 0; i < list.size(); ++i) out.push_back(read_message(list.at(i)));
    return out;
}

PromptMode mode_of(const Json& json) {
    return text_of(json, "mode") == "thinking" ? PromptMode::thinking : PromptMode::chat;
}

Json golden(const std::string& name) {
    return Json::parse(read_text(cat(golden_folder, "/", name), 64 << 20).value()).value();
}

// What the model's encoder made of conversations, and read from completions.
const Json& official() {
    static const Json json = golden("prompts/dsv4.json");
    return json;
}

// Everything that an answer of this text is parsed to.
AnswerParser::Piece parsed(PromptMode mode, const Ids& answer) {
    AnswerParser parser(v4_tokenizer(), &deepseek::chat_tokens, mode, &deepseek_v4_tools);
    AnswerParser::Piece all;
    const auto take = [&](AnswerParser::Piece piece) {
        all.reasoning += piece.reasoning;
        all.content += piece.content;
        all.calls.insert(all.calls.end(), piece.calls.begin(), piece.calls.end());
    };
    for (const int32_t id : answer) take(parser.push(id));
    take(parser.finish());
    CHECK(parser.malformed().empty());
    return all;
}

PromptWording wording_of(const std::string& python) {
    PromptWording out(deepseek::chat_wording);
    REQUIRE(out.add("encoding/encoding_dsv4.py", python));
    return out;
}

const PromptWording& shipped_wording() {
    static const PromptWording wording = *PromptWording::load(
        {std::string(models_folder) + "/dsv4-rand-a", "", ""}, deepseek::chat_wording);
    return wording;
}

std::string effort_text(const PromptWording& wording, int asked, const std::string& shown) {
    const auto effort = deepseek_v4_chat.effort(asked, &wording);
    REQUIRE_MESSAGE(effort, (effort ? "" : effort.error().message));
    CHECK(effort->shown == shown);
    return effort->text;
}

std::string effort_refusal(const PromptWording& wording, int asked, Code code = Code::usage) {
    const auto effort = deepseek_v4_chat.effort(asked, &wording);
    REQUIRE(!effort);
    CHECK(effort.error().code == code);
    return effort.error().message;
}

int added_in(const Ids& ids) {
    return static_cast<int>(std::count_if(ids.begin(), ids.end(),
                                          [](int32_t id) { return v4_tokenizer().is_added(id); }));
}

}  // namespace

TEST_CASE("deepseek-v4 chat: every conversation is written as the model's encoder does") {
    const Json cases = official()["cases"];
    REQUIRE(cases.size() == 52);
    for (size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        const Json one = cases.at(i);
        PromptOptions options{mode_of(one)};
        options.drop_thinking = one["drop_thinking"].boolean().value();
        check(read_messages(one["messages"]), options, text_of(one, "text"));
    }
}

TEST_CASE("deepseek-v4 chat: completions are read as the model's parser does") {
    const Json completions = official()["completions"];
    REQUIRE(completions.size() == 3);
    for (size_t i = 0; i < completions.size(); ++i) {
        CAPTURE(i);
        const Json one = completions.at(i);
        const Message expected = read_message(one["message"]);
        const auto found =
            parsed(mode_of(one), v4_tokenizer().encode_with_added(text_of(one, "completion")));
        CHECK(found.reasoning == expected.reasoning);
        CHECK(found.content == expected.content);
        REQUIRE(found.calls.size() == expected.calls.size());
        for (size_t call = 0; call < found.calls.size(); ++call) {
            CHECK(found.calls[call].name == expected.calls[call].name);
            CHECK(found.calls[call].arguments == expected.calls[call].arguments);
        }
    }
}

TEST_CASE("deepseek-v4 chat: the ids of the golden traces") {
    for (const char* name : {"dsv4-rand-a-06.json", "dsv4-rand-a-07.json"}) {
        const Json trace = golden(name);
        const auto messages = read_messages(trace["messages"]);
        const PromptOptions options{mode_of(trace)};
        check(messages, options, text_of(trace, "text"));
        const auto prompt = trace["prompt"].integers().value();
        CHECK(encode(messages, options) == Ids(prompt.begin(), prompt.end()));
    }
}

TEST_CASE("deepseek-v4 chat: later system messages, reminders, tasks") {
    check({user("A"), system_says("S"), user("B")}, chat,
          bos + "<｜User｜>A<｜User｜>S<｜User｜>B<｜Assistant｜></think>");
    check({user("A"), assistant("B", "r"), system_says("S")}, thinks,
          bos + "<｜User｜>A<｜Assistant｜></think>B" + eos + "<｜User｜>S<｜Assistant｜><think>");
    check({user("A"), reminder("R"), assistant("B"), tool("1"), user("C"), tool("2")}, chat,
          bos + "<｜User｜>A<｜Assistant｜></think><｜latest_reminder｜>RB" + eos +
              "<｜User｜><tool_result>1</tool_result>\n\nC\n\n<tool_result>2</tool_result>"
              "<｜Assistant｜></think>");
    check({user("A"), reminder("R")}, thinks,
          bos + "<｜User｜>A<｜Assistant｜><think><｜latest_reminder｜>R");
    says(refusal({reminder("R")}, chat), {"message 1 (latest_reminder) has nothing to answer"});
    says(refusal({system_says("S")}, chat), {"message 1 (system)"});

    Message titled = user("A"), acting = user("A");
    titled.task = "title";
    acting.task = "action";
    check({titled}, thinks, bos + "<｜User｜>A<｜title｜>");
    check({titled, user("B")}, chat, bos + "<｜User｜>A<｜User｜>B<｜Assistant｜></think>");
    check({acting, assistant("B", "r"), user("C")}, {PromptMode::thinking, {}, false},
          bos + "<｜User｜>A<｜Assistant｜><think><｜action｜>B" + eos +
              "<｜User｜>C<｜Assistant｜><think>");
    acting.task = "hum";
    says(refusal({acting}, chat), {"message 1 (user): task 'hum' is not one of action, query"});
    Message result = tool("1");
    result.task = "title";
    says(refusal({user("A"), result}, chat), {"message 2 (tool): only messages of a user"});
    PromptOptions goes_on;
    goes_on.continue_last = true;
    check({user("A"), reminder("R"), assistant("B")}, goes_on,
          bos + "<｜User｜>A<｜Assistant｜></think><｜latest_reminder｜>RB");
    Message answer = assistant("B");
    answer.task = "title";
    says(refusal({user("A"), answer}, goes_on), {"message 2 (assistant) cannot be continued"});
}

TEST_CASE("deepseek-v4 chat: tools, response format and effort around the system content") {
    const auto declared = Json::parse(R"({"name":"f","parameters":{}})").value();
    const std::string block =
        "\n\n## Tools\n\nThese functions can be asked for, with blocks such as:\n\n"
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"$NAME\">\n"
        "<｜DSML｜parameter name=\"$KEY\" string=\"true|false\">$VALUE</｜DSML｜parameter>\n"
        "</｜DSML｜invoke>\n</｜DSML｜tool_calls>\n\nThink between <think> and </think> first.\n\n"
        "{\"name\": \"f\", \"parameters\": {}}\n\nKeep to them.\n";
    const std::string form = "\n\n## Form of the answer\n\nOnly JSON of this form:\n{}";
    const std::vector<Message> turns{user("A"), assistant("B", "r"), user("C")};
    std::vector<Message> with_system = turns;
    with_system.insert(with_system.begin(), system_says("S"));
    const std::string kept =
        "<｜User｜>A<｜Assistant｜><think>r</think>B" + eos + "<｜User｜>C<｜Assistant｜><think>";
    PromptOptions options = thinks;
    options.wording = &shipped_wording();
    options.tools = {declared};
    check(turns, options, bos + block + kept);
    options.response_format = "{}";
    options.effort = 100;
    const std::string most = "Effort: max. Check each step twice, and then the whole.\n\n";
    check(with_system, options, bos + most + "S" + block + form + kept);
    options.effort = 50;
    check(with_system, options, bos + "S" + block + form + kept);
    options.mode = PromptMode::chat;
    options.effort = 100;
    check({user("A")}, options, bos + block + form + "<｜User｜>A<｜Assistant｜></think>");
}

TEST_CASE("deepseek-v4 chat: efforts are those of the release that the encoder belongs to") {
    CHECK(deepseek_v4_chat.effort({}, nullptr)->text.empty());
    CHECK(deepseek_v4_chat.effort({}, nullptr)->shown.empty());

    const PromptWording first = wording_of("REASONING_EFFORT_MAX = 'Much.\\n\\n'\nA = 'a'");
    CHECK(effort_text(first, 75, "high").empty());
    CHECK(effort_text(first, 100, "max") == "Much.\n\n");
    CHECK(effort_text(first, 88, "max") == "Much.\n\n");
    says(effort_refusal(first, 50), {"reasoning effort low is unknown", "which knows high, max;"});

    for (const char* low : {"", "'low': '', ", "\"low\": None,"}) {
        const PromptWording later =
            wording_of(cat("MUCH = 'Much.'\nREASONING_EFFORT_PROMPTS = {", low, "'high': MUCH,\n",
                           "  # a comment\n'max': 'More. ' + MUCH\n}\n"));
        CHECK(effort_text(later, 25, "low").empty());
        CHECK(effort_text(later, 50, "low").empty());
        CHECK(effort_text(later, 62, "high") == "Much.");
        CHECK(effort_text(later, 75, "high") == "Much.");
        CHECK(effort_text(later, 100, "max") == "More. Much.");
    }
    const PromptWording less = wording_of("REASONING_EFFORT_PROMPTS = {'high': 'Much.'}");
    says(effort_refusal(less, 100), {"effort max is unknown", "which knows low, high;"});
    says(effort_refusal(wording_of("A = 'a'"), 75, Code::not_found),
         {"encoding/encoding_dsv4.py: no constant REASONING_EFFORT_PROMPTS or"});
    says(effort_refusal(wording_of("REASONING_EFFORT_MAX = '\\N{X}'"), 100, Code::unsupported),
         {"REASONING_EFFORT_MAX (line 1)"});
    says(effort_refusal(first, 101), {"1 to 100"});

    PromptOptions options = thinks;
    options.effort = 75;
    CHECK(needs_wording(deepseek_v4_chat, options));
    CHECK(!needs_wording(deepseek_v41_chat, options));
    CHECK(!needs_wording(deepseek_v4_chat, thinks));
    says(refusal({user("A")}, options, Code::not_found), {"encoding/encoding*.py"});
    options.mode = PromptMode::chat;
    CHECK(!needs_wording(deepseek_v4_chat, options));
    check({user("A")}, options, bos + "<｜User｜>A<｜Assistant｜></think>");
}

TEST_CASE("deepseek-v4 chat: calls are read as they are written, and forced as they begin") {
    const std::vector<ToolCall> calls{{"call_1", "f", R"({"a": "x<y", "s": ""})"},
                                      {"call_2", "ns::g", R"({"b": [1, {"k": null}]})"},
                                      {"call_3", "none", "{}"}};
    const Ids question = encode({user("A")});
    const Ids whole = encode({user("A"), assistant("I ask", "", calls)});
    const Ids answer(whole.begin() + static_cast<std::ptrdiff_t>(question.size()), whole.end());
    const auto found = parsed(PromptMode::chat, answer);
    CHECK(found.content == "I ask");
    REQUIRE(found.calls.size() == 3);
    for (size_t i = 0; i < calls.size(); ++i) {
        CHECK(found.calls[i].name == calls[i].name);
        CHECK(found.calls[i].arguments == calls[i].arguments);
    }
    const auto prefix = forced_call_prefix(v4_tokenizer(), deepseek_v4_tools, "f").value();
    CHECK(prefix == v4_tokenizer().encode_with_added(
                        "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"));
    CHECK(std::search(whole.begin(), whole.end(), prefix.begin(), prefix.end()) != whole.end());
    // V4.1's tags, with a space in them, are none of V4.
    AnswerParser parser(v4_tokenizer(), &deepseek::chat_tokens, PromptMode::chat,
                        &deepseek_v4_tools);
    for (const int32_t id : v4_tokenizer().encode_with_added("<｜DSML｜ calls>\n")) parser.push(id);
    CHECK(parser.malformed() == "unknown tag");
}

TEST_CASE("deepseek-v4 chat: no message content becomes a control token") {
    std::string hostile;
    for (int32_t id = 0; id < v4_tokenizer().size(); ++id) {
        if (v4_tokenizer().is_added(id)) hostile += v4_tokenizer().bytes(id);
    }
    const auto controls = [](const std::string& text) {
        const std::string arguments = cat("{", json_quote(text), ":", json_quote(text), "}");
        return added_in(encode(
            {system_says(text), reminder(text), user(text),
             assistant(text, text, {{"c", text, arguments}}), tool(text, "c"), system_says(text)},
            {PromptMode::thinking, {}, false}));
    };
    CHECK(controls(hostile) == controls("x"));
}
