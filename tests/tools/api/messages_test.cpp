// Conversations, prompts and tools in each API's words.
#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// One line a message: "user: text", calls as "call id name arguments", results with their id.
std::string listed(const std::vector<Message>& messages) {
    constexpr const char* names[] = {"system", "user", "assistant", "tool", "latest_reminder"};
    std::string out;
    for (const Message& message : messages) {
        out += cat(names[static_cast<int>(message.role)], ": ", message.content);
        if (!message.reasoning.empty()) out += cat(" (", message.reasoning, ")");
        if (!message.call_id.empty()) out += cat(" [", message.call_id, "]");
        for (const ToolCall& call : message.calls) {
            out += cat(" call ", call.id, " ", call.name, " ", call.arguments);
        }
        out += "\n";
    }
    return out;
}

std::string chat_messages(std::string_view messages) {
    return listed(parsed(chat, cat(R"({"messages":)", messages, "}")).answer.messages);
}

std::string chat_refusal(std::string_view messages) {
    return refusal(chat, cat(R"({"messages":)", messages, "}"));
}

std::string input_items(std::string_view input) {
    return listed(parsed(responses, cat(R"({"input":)", input, "}")).answer.messages);
}

std::string anthropic_messages(std::string_view messages) {
    return listed(
        parsed(anthropic, cat(R"({"max_tokens":9,"messages":)", messages, "}")).answer.messages);
}

std::string anthropic_refusal(std::string_view messages) {
    return refusal(anthropic, cat(R"({"max_tokens":9,"messages":)", messages, "}"));
}

}  // namespace

TEST_CASE("chat: roles, parts, calls, results and reasoning become messages") {
    CHECK(chat_messages(R"([
        {"role":"developer","content":"Be brief."},
        {"role":"user","name":"ann",
         "content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null,"reasoning_content":"hm","refusal":null,
         "tool_calls":[{"id":"c1","type":"function",
                        "function":{"name":"f","arguments":"{\"x\": 1}"}},
                       {"id":"c2","function":{"name":"g","arguments":""}}]},
        {"role":"tool","tool_call_id":"c2","content":"2"},
        {"role":"tool","content":[{"type":"text","text":"1"}]},
        {"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"reasoning":"why"},
        {"role":"user","content":""}])") ==
          "system: Be brief.\n"
          "user: a\n\nb\n"
          "assistant:  (hm) call c1 f {\"x\": 1} call c2 g {}\n"
          "tool: 2 [c2]\n"
          "tool: 1\n"
          "assistant: no (why)\n"
          "user: \n");
}

TEST_CASE("chat: what cannot be read is refused by its path") {
    CHECK(chat_refusal("[]") == "messages: at least one is needed");
    CHECK(refusal(chat, "{}") == "messages: at least one is needed");
    CHECK(chat_refusal("5") == "messages: expected a list of messages");
    CHECK(chat_refusal("[5]").starts_with("messages[0].role: missing"));
    CHECK(chat_refusal(R"([{"role":"king","content":"x"}])").starts_with("messages[0].role: "));
    CHECK(chat_refusal(R"([{"role":"function","content":"x"}])") ==
          "messages[0].role: function is not supported: use tool");
    CHECK(chat_refusal(R"([{"role":"user","content":null}])") ==
          "messages[0].content: expected a string or a list of parts");
    CHECK(chat_refusal(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])") ==
          "messages[0].content[0]: image_url: only text is read here");
    CHECK(chat_refusal(R"([{"role":"user","content":[{"type":"input_audio"}]}])") ==
          "messages[0].content[0]: input_audio: only text is read here");
    CHECK(chat_refusal(R"([{"role":"user","content":[{"type":"text"}]}])")
              .starts_with("messages[0].content[0].text: missing"));
    CHECK(chat_refusal(R"([{"role":"user","content":"x"},{"role":"assistant","content":"y"}])")
              .starts_with("messages: the last one is the assistant's"));
    const auto call = [](std::string_view text) {
        return chat_refusal(cat(R"([{"role":"assistant","tool_calls":[)", text, "]}]"));
    };
    const std::string at = "messages[0].tool_calls[0].";
    CHECK(call(R"({"function":{"name":"f","arguments":"{"}})")
              .starts_with(at + "function.arguments: expected a JSON object as text: "));
    CHECK(call(R"({"function":{"name":"f","arguments":"[]"}})") ==
          at + "function.arguments: expected a JSON object as text");
    CHECK(call(R"({"function":{"name":"f","arguments":{}}})")
              .starts_with(at + "function.arguments: expected a string"));
    CHECK(call(R"({"function":{"arguments":"{}"}})").starts_with(at + "function.name: missing"));
    CHECK(call(R"({"type":"custom","custom":{}})") == at + "type: only function is supported");
}

TEST_CASE("completions: a prompt is a text or ids, and only one") {
    CHECK(*parsed(completions, R"({"prompt":"a"})").answer.text == "a");
    CHECK(parsed(completions, R"({"prompt":""})").answer.text == "");
    CHECK(*parsed(completions, R"({"prompt":["a"]})").answer.text == "a");
    CHECK(parsed(completions, R"({"prompt":[1,2]})").answer.ids == std::vector<int32_t>{1, 2});
    CHECK(parsed(completions, R"({"prompt":[[3]]})").answer.ids == std::vector<int32_t>{3});
    CHECK(refusal(completions, R"({"prompt":["a","b"]})") == "prompt: only 1 prompt per request");
    CHECK(refusal(completions, R"({"prompt":[]})") == "prompt: expected a list that is not empty");
    CHECK(refusal(completions, R"({"prompt":[[]]})") ==
          "prompt[0]: expected a string or a list of token ids");
    CHECK(refusal(completions, R"({"prompt":[1,-2]})").starts_with("prompt[1]: expected a whole"));
    CHECK(refusal(completions, R"({"prompt":[1,"a"]})").starts_with("prompt[1]: expected an int"));
    CHECK(refusal(completions, R"({"prompt":[4294967296]})").starts_with("prompt[0]: expected"));
    CHECK(refusal(completions, "{}") == "prompt: missing");
    CHECK(refusal(completions, R"({"prompt":null})") == "prompt: missing");
}

TEST_CASE("responses: items become messages, and the assistant's are joined") {
    CHECK(input_items(R"("hi")") == "user: hi\n");
    CHECK(input_items(R"([
        {"role":"user","content":"q"},
        {"type":"reasoning","id":"rs_1","summary":[],
         "content":[{"type":"reasoning_text","text":"hm"}]},
        {"type":"message","role":"assistant","id":"msg_1","status":"completed",
         "content":[{"type":"output_text","text":"I look.","annotations":[]}]},
        {"type":"function_call","call_id":"c1","id":"fc_1","name":"f","arguments":"{}"},
        {"type":"function_call","call_id":"c2","name":"g","arguments":"{\"a\":1}"},
        {"type":"function_call_output","call_id":"c1","output":"r1"},
        {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"r2"}]},
        {"role":"developer","content":[{"type":"input_text","text":"now"}]}])") ==
          "user: q\n"
          "assistant: I look. (hm) call c1 f {} call c2 g {\"a\":1}\n"
          "tool: r1 [c1]\n"
          "tool: r2 [c2]\n"
          "system: now\n");
    const auto why = [](std::string_view item) {
        return refusal(responses, cat(R"({"input":[)", item, "]}"));
    };
    CHECK(why(R"({"type":"item_reference","id":"x"})") ==
          "input[0].type: item_reference is not supported: only message, function_call, "
          "function_call_output and reasoning");
    CHECK(why(R"({"role":"user","content":[{"type":"input_image"}]})") ==
          "input[0].content[0]: input_image: only text is read here");
    CHECK(why(R"({"type":"function_call","name":"f","arguments":"{}"})")
              .starts_with("input[0].call_id: missing"));
    CHECK(refusal(responses, R"({"input":[]})") == "input: at least one is needed");
    CHECK(refusal(responses, R"({"input":{}})") == "input: expected a string or a list of items");
    CHECK(refusal(responses, R"({"instructions":"x"})") == "input: at least one is needed");
}

TEST_CASE("anthropic: blocks become messages, results in the order given") {
    CHECK(anthropic_messages(R"([
        {"role":"user","content":"q"},
        {"role":"assistant","content":[
            {"type":"thinking","thinking":"hm","signature":"s"},
            {"type":"redacted_thinking","data":"xx"},
            {"type":"text","text":"I look."},
            {"type":"tool_use","id":"t1","name":"f","input":{"b":[1,2.0],"a":null}}]},
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"t1","is_error":false,
             "content":[{"type":"text","text":"r"}]},
            {"type":"tool_result","tool_use_id":"t2"},
            {"type":"text","text":"go","cache_control":{"type":"ephemeral"}},
            {"type":"text","text":"on"}]},
        {"role":"system","content":"late"}])") ==
          "user: q\n"
          "assistant: I look. (hm) call t1 f {\"b\": [1, 2.0], \"a\": null}\n"
          "tool: r [t1]\n"
          "tool:  [t2]\n"
          "user: go\n\non\n"
          "system: late\n");
    const auto with_system = parse_with(anthropic, R"("system":[{"type":"text","text":"s"}])");
    REQUIRE(with_system);
    CHECK(listed(with_system->answer.messages) == "system: s\nuser: hi\n");
    CHECK(anthropic_refusal(R"([{"role":"user","content":[{"type":"image","source":{}}]}])") ==
          "messages[0].content[0]: image: only text is read here");
    CHECK(anthropic_refusal(R"([{"role":"user","content":[{"type":"document"}]}])") ==
          "messages[0].content[0]: document: only text is read here");
    CHECK(anthropic_refusal(R"([{"role":"user","content":[]}])") ==
          "messages[0].content: expected at least one block");
    CHECK(anthropic_refusal(R"([{"role":"tool","content":"x"}])") ==
          "messages[0].role: expected user, assistant or system, found \"tool\"");
    CHECK(anthropic_refusal(R"([{"role":"user","content":[{"type":"tool_result"}]}])")
              .starts_with("messages[0].content[0].tool_use_id: missing"));
    CHECK(anthropic_refusal(
              R"([{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f"}]}])") ==
          "messages[0].content[0].input: expected an object");
    CHECK(refusal(anthropic, R"({"messages":[{"role":"user","content":"a"}]})")
              .starts_with("max_tokens: missing"));
}

TEST_CASE("anthropic: results may be errors, lists or empty, and thoughts come back") {
    CHECK(anthropic_messages(R"([
        {"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"},
                                   "citations":null}]},
        {"role":"assistant","content":[
            {"type":"thinking","thinking":"a","signature":"unsigned"},
            {"type":"thinking","thinking":"b","signature":""},
            {"type":"tool_use","id":"t1","name":"f","input":{},"caller":{"type":"direct"}}]},
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"t1","is_error":true,
             "content":[{"type":"text","text":"no"},{"type":"text","text":"file"}]}]}])") ==
          "user: q\n"
          "assistant:  (a\n\nb) call t1 f {}\n"
          "tool: no\n\nfile [t1]\n");
    const auto blocks = parse_with(
        anthropic, R"("system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral",
                      "ttl":"1h"}},{"type":"text","text":"t"}])");
    REQUIRE(blocks);
    CHECK(listed(blocks->answer.messages) == "system: s\n\nt\nuser: hi\n");
}

TEST_CASE("a last message of the assistant's is continued where the API has that") {
    const std::string turns = R"([{"role":"user","content":"a"},{"role":"assistant",)";
    const auto claude = [&](std::string_view last, std::string_view members) {
        return dialect(anthropic).parse(
            cat(R"({"max_tokens":9,"messages":)", turns, last, "}]", members, "}"), defaults());
    };
    const auto plain = claude(R"("content":"b")", "");
    REQUIRE(plain);
    CHECK(plain->answer.prompt.continue_last);
    CHECK(listed(plain->answer.messages) == "user: a\nassistant: b\n");
    CHECK_FALSE(parse_with(anthropic, "")->answer.prompt.continue_last);

    // Thinking: only behind a thought of the message's own.
    const std::string_view think = R"(,"thinking":{"type":"enabled","budget_tokens":2000})";
    const auto thought = claude(
        R"("content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"b"}])", think);
    REQUIRE(thought);
    CHECK(thought->answer.prompt.mode == PromptMode::thinking);
    CHECK(claude(R"("content":"b")", think).error().message ==
          "messages: the last one is the assistant's, and an answer that continues it cannot think "
          "first: turn thinking off");
    AnswerRequest thinks = defaults();
    thinks.prompt.mode = PromptMode::thinking;
    const auto unasked = dialect(anthropic).parse(
        cat(R"({"max_tokens":9,"messages":)", turns, R"("content":"b"}]})"), thinks);
    REQUIRE(unasked);
    CHECK(unasked->answer.prompt.mode == PromptMode::chat);
    CHECK(claude(R"("content":"b")",
                 R"(,"output_config":{"format":{"type":"json_schema","schema":{}}})")
              .error()
              .message ==
          "messages: the last one is the assistant's, and an answer that continues "
          "it cannot be held to a form");

    // DeepSeek's addition to chat completions.
    const auto marked = [&](std::string_view prefix) {
        return cat(R"({"messages":)", turns, R"("content":"b","prefix":)", prefix, "}]}");
    };
    CHECK(parsed(chat, marked("true")).answer.prompt.continue_last);
    CHECK(refusal(chat, marked("false")).starts_with("messages: the last one is the assistant's"));
    CHECK(refusal(chat, marked("1")).starts_with("messages[1].prefix: expected"));
}

TEST_CASE("a count needs a prompt and nothing of an answer") {
    REQUIRE(count_routes().size() == 2);
    const CountRoute& claude = count_routes()[0];
    const CountRoute& openai = count_routes()[1];
    CHECK(claude.path == "/v1/messages/count_tokens");
    CHECK(openai.path == "/v1/responses/input_tokens");
    const auto request = claude.parse(R"({"model":"m","messages":[{"role":"user","content":"hi"}],
        "tools":[{"name":"f","input_schema":{"type":"object"}}],"system":"s"})",
                                      defaults());
    REQUIRE(request);
    CHECK(listed(request->answer.messages) == "system: s\nuser: hi\n");
    CHECK(request->answer.tools.size() == 1);
    CHECK(claude.parse(R"({"model":"m"})", defaults()).error().message ==
          "messages: at least one is needed");
    CHECK(claude.parse("[]", defaults()).error().code == Code::usage);
    CHECK(openai.parse(R"({"input":"hi"})", defaults()));
    CHECK(count_reply(claude, 7) == R"({"input_tokens":7})");
    CHECK(count_reply(openai, 7) == R"({"object":"response.input_tokens","input_tokens":7})");
    CHECK(claude.dialect == &dialect(anthropic));
}

TEST_CASE("reasoning that does not end stays reasoning in every reply") {
    for (const auto path : {chat, completions, responses, anthropic}) {
        CHECK(parse_with(path, "")->answer.unclosed == Unclosed::stays_reasoning);
    }
}

TEST_CASE("the same tool is the same declaration in every API") {
    const std::string wanted =
        R"({"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}})";
    const std::string schema = R"({"type":"object","properties":{}})";
    const std::string openai_tool =
        cat(R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":)",
            schema, "}}]");
    const std::string flat_tool = cat(
        R"("tools":[{"type":"function","name":"f","description":"d","parameters":)", schema, "}]");
    const std::string anthropic_tool =
        cat(R"("tools":[{"name":"f","description":"d","cache_control":{},"input_schema":)", schema,
            "}]");
    for (const auto& [path, tools] : {std::pair(chat, openai_tool), std::pair(responses, flat_tool),
                                      std::pair(anthropic, anthropic_tool)}) {
        CAPTURE(path);
        const auto request = parse_with(path, tools);
        REQUIRE_MESSAGE(request, (request ? "" : request.error().message));
        CHECK(request->answer.tools == std::vector<std::string>{wanted});
        CHECK(parse_with(path, R"("tools":[])")->answer.tools.empty());
    }
}

TEST_CASE("tools that cannot be declared are refused by their path") {
    const auto why = [](std::string_view tools) {
        const auto request = parse_with(chat, cat(R"("tools":)", tools));
        REQUIRE_FALSE(request);
        return request.error().message;
    };
    const auto named = [](std::string_view name) {
        return cat(R"({"type":"function","function":{"name":")", name, R"("}})");
    };
    CHECK(why("{}") == "tools: expected a list of tools");
    CHECK(why(R"([{"type":"custom"}])") == "tools[0].type: only function is supported");
    CHECK(why("[5]").starts_with("tools[0].type: missing"));
    CHECK(why(R"([{"type":"function"}])").starts_with("tools[0].function.name: missing"));
    const std::string name_rule =
        "tools[0].function.name: expected 1 to 128 letters, digits or _ - . : /";
    for (const std::string& name :
         {std::string(), std::string("a b"), std::string("a\\\"b"), std::string(129, 'a')}) {
        CHECK(why(cat("[", named(name), "]")) == name_rule);
    }
    CHECK(why(cat("[", named("f"), ",", named("f"), "]")) ==
          "tools[1].function.name: f is declared twice");
    CHECK(why(R"([{"type":"function","function":{"name":"f","parameters":[]}}])") ==
          "tools[0].function.parameters: expected a JSON schema, which is an object");
    std::string many = named("f0");
    for (int i = 1; i <= 512; ++i) many += cat(",", named(cat("f", i)));
    CHECK(why(cat("[", many, "]")) == "tools: at most 512 are read");
    const auto server_tool =
        parse_with(anthropic, R"("tools":[{"type":"web_search_20250305","name":"web_search"}])");
    REQUIRE_FALSE(server_tool);
    CHECK(server_tool.error().message ==
          "tools[0].type: only custom is supported: this server has no tools of its own");
    CHECK_FALSE(parse_with(anthropic, R"("tools":[{"name":"f"}])"));
    CHECK_FALSE(parse_with(responses, R"("tools":[{"type":"web_search"}])"));
}

TEST_CASE("the choice of a tool, in each API's words") {
    struct Case {
        std::string_view path;
        std::string choice;
        ToolChoice wanted;
        std::string name = {};
        bool parallel = true;
    };
    const std::vector<Case> cases{
        {chat, R"("tool_choice":"auto")", ToolChoice::automatic},
        {chat, R"("tool_choice":"none")", ToolChoice::none},
        {chat, R"("tool_choice":"required","parallel_tool_calls":false)", ToolChoice::required, "",
         false},
        {chat, R"("tool_choice":{"type":"function","function":{"name":"f"}})", ToolChoice::required,
         "f"},
        {responses, R"("tool_choice":{"type":"function","name":"f"})", ToolChoice::required, "f"},
        {responses, R"("tool_choice":"required")", ToolChoice::required},
        {anthropic, R"("tool_choice":{"type":"auto"})", ToolChoice::automatic},
        {anthropic, R"("tool_choice":{"type":"none"})", ToolChoice::none},
        {anthropic, R"("tool_choice":{"type":"any","disable_parallel_tool_use":true})",
         ToolChoice::required, "", false},
        {anthropic, R"("tool_choice":{"type":"tool","name":"f"})", ToolChoice::required, "f"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.choice);
        const std::string tools =
            c.path == chat        ? R"("tools":[{"type":"function","function":{"name":"f"}}],)"
            : c.path == responses ? R"("tools":[{"type":"function","name":"f"}],)"
                                  : R"("tools":[{"name":"f","input_schema":{}}],)";
        const auto request = parse_with(c.path, tools + c.choice);
        REQUIRE_MESSAGE(request, (request ? "" : request.error().message));
        CHECK(request->answer.tool_choice == c.wanted);
        CHECK(request->answer.tool_name == c.name);
        CHECK(request->parallel_calls == c.parallel);
    }
    const auto why = [](std::string_view members) {
        const auto request = parse_with(chat, members);
        REQUIRE_FALSE(request);
        return request.error().message;
    };
    CHECK(why(R"("tool_choice":"required")") == "tool_choice: requires a tool, but tools is empty");
    CHECK(why(R"("tools":[{"type":"function","function":{"name":"f"}}],)"
              R"("tool_choice":{"type":"function","function":{"name":"g"}})") ==
          "tool_choice: g is not one of the tools");
    CHECK(why(R"("tool_choice":"maybe")") ==
          "tool_choice: expected auto, none, required or a tool, found \"maybe\"");
    CHECK(why(R"("tool_choice":5)") == "tool_choice: expected auto, none, required or a tool");
    CHECK(why(R"("tool_choice":{"type":"allowed_tools"})") ==
          "tool_choice.type: only function is supported");
    CHECK(why(R"("top_logprobs":3)") == "top_logprobs: needs logprobs: true");
}
