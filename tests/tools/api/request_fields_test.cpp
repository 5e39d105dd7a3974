// Every field of every API: right, of a wrong type, out of range; ignored and refused ones.
#include <functional>

#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct UsedField {
    std::vector<std::string_view> paths;
    std::string right;  // members of the body
    std::function<bool(const ApiRequest&)> read;
    std::string wrong_type;    // a value
    std::string out_of_range;  // a value; empty: there is none
    std::string field = {};    // its path in errors; empty: its name
};

std::string name_of(const UsedField& field) {
    return field.right.substr(1, field.right.find('"', 1) - 1);
}

const std::vector<std::string_view> openai{chat, completions, responses};
const std::vector<std::string_view> all{chat, completions, responses, anthropic};

using R = const ApiRequest&;

std::vector<UsedField> sampling() {
    return {
        {all, R"("top_p":0.5)", [](R r) { return r.answer.sampler.top_p == 0.5; }, R"("x")", "1.1"},
        {all, R"("top_p":0)",
         [](R r) { return r.answer.sampler.top_p > 0 && r.answer.sampler.top_p < 1e-300; }, "[]",
         "-0.1"},
        {all, R"("top_k":40)", [](R r) { return r.answer.sampler.top_k == 40; }, "1.5",
         "2147483648"},
        {all, R"("top_k":-1)", [](R r) { return r.answer.sampler.top_k == 0; }, "{}", "-2"},
        {all, R"("min_p":0.05)", [](R r) { return r.answer.sampler.min_p == 0.05; }, "true", "1"},
        {all, R"("seed":-1)", [](R r) { return r.answer.sampler.seed == ~uint64_t{0}; }, "0.5",
         "18446744073709551615"},
        {all, R"("repetition_penalty":1.1)",
         [](R r) { return r.answer.sampler.repetition_penalty == 1.1; }, R"("1")", "0"},
        {all, R"("repeat_penalty":1.1)",
         [](R r) { return r.answer.sampler.repetition_penalty == 1.1; }, R"("1")", "11"},
        {all, R"("presence_penalty":0.5)",
         [](R r) { return r.answer.sampler.presence_penalty == 0.5; }, R"("1")", "2.5"},
        {all, R"("frequency_penalty":-2)",
         [](R r) { return r.answer.sampler.frequency_penalty == -2; }, R"("1")", "-2.5"},
        {all, R"("logit_bias":{"17":-100,"2":0.5})",
         [](R r) {
             const auto& bias = r.answer.sampler.logit_bias;
             return bias.size() == 2 && bias[0].id == 17 && bias[0].bias == -100 &&
                    bias[1].id == 2 && bias[1].bias == 0.5;
         },
         "[]", R"({"17":101})", "logit_bias"},
        {all, R"("ignore_eos":true)", [](R r) { return r.answer.ignore_eos; }, "1", ""},
        {all, R"("loop_guard":64)", [](R r) { return r.answer.loop_guard == 64; }, "true", "15"},
        {openai, R"("temperature":1.5)", [](R r) { return r.answer.sampler.temperature == 1.5; },
         R"("hot")", "2.1"},
        {{anthropic},
         R"("temperature":1)",
         [](R r) { return r.answer.sampler.temperature == 1; },
         R"("hot")",
         "1.5"},
    };
}

std::vector<UsedField> shared() {
    const auto two_stops = [](R r) { return r.answer.stop == std::vector<std::string>{"a", "\n"}; };
    const auto one_stop = [](R r) { return r.answer.stop == std::vector<std::string>{"a"}; };
    const std::string seventeen = R"(["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f",)"
                                  R"("g","h"])";
    return {
        {all, R"("model":"m")", [](R r) { return r.model == "m"; }, "1", ""},
        {all, R"("stream":true)", [](R r) { return r.stream; }, R"("true")", ""},
        {openai, R"("stream_options":{"include_usage":true})",
         [](R r) { return r.usage_in_stream; }, "true", ""},
        {openai, R"("stop":["a","\n"])", two_stops, "5", seventeen},
        {openai, R"("stop":"a")", one_stop, "[1]", R"([""])", "stop"},
        {{anthropic}, R"("stop_sequences":["a","\n"])", two_stops, "5", seventeen},
        {openai, R"("n":1)", [](R) { return true; }, R"("1")", "0"},
        {{chat, completions},
         R"("max_tokens":5)",
         [](R r) { return r.answer.predict == 5 && !r.answer.predict_must_fit; },
         "1.5",
         "0"},
        {{chat, completions},
         R"("max_tokens":-1)",
         [](R r) { return r.answer.predict == -1; },
         R"("5")",
         "-2"},
        {{chat},
         R"("max_completion_tokens":5)",
         [](R r) { return r.answer.predict == 5; },
         "[]",
         "0"},
        {{responses},
         R"("max_output_tokens":5)",
         [](R r) { return r.answer.predict == 5; },
         "[]",
         "0"},
        {{completions},
         R"("logprobs":3)",
         [](R r) { return r.answer.top_logprobs == 3; },
         "true",
         "21"},
        {{chat}, R"("logprobs":true)", [](R r) { return r.answer.top_logprobs == 0; }, "3", ""},
        {{chat},
         R"("logprobs":true,"top_logprobs":20)",
         [](R r) { return r.answer.top_logprobs == 20; },
         "3",
         ""},
        {{responses},
         R"("top_logprobs":2)",
         [](R r) { return r.answer.top_logprobs == 2; },
         "true",
         "21"},
        {{responses},
         R"("include":["message.output_text.logprobs"])",
         [](R r) { return r.answer.top_logprobs == 0; },
         "true",
         "[1]",
         "include"},
        {{responses},
         R"("instructions":"be brief")",
         [](R r) {
             return r.answer.messages.size() == 2 && r.answer.messages[0].role == Role::system &&
                    r.answer.messages[0].content == "be brief";
         },
         "5",
         ""},
    };
}

std::vector<UsedField> formats() {
    const auto object = [](R r) { return r.answer.format == ResponseFormat::json_object; };
    const auto schema = [](R r) {
        return r.answer.format == ResponseFormat::json_schema &&
               r.answer.schema == R"({"type": "object", "maximum": 1.0})";
    };
    const std::string inner =
        R"("name":"n","strict":true,"schema":{"type":"object","maximum":1.0})";
    return {
        {{chat},
         R"("response_format":{"type":"json_object"})",
         object,
         "[]",
         R"({"type":"grammar"})",
         "response_format.type"},
        {{chat},
         R"("response_format":{"type":"text"})",
         [](R r) { return r.answer.format == ResponseFormat::text; },
         "5",
         R"({"type":"json_schema"})",
         "response_format"},
        {{chat},
         cat(R"("response_format":{"type":"json_schema","json_schema":{)", inner, "}}"),
         schema,
         "5",
         R"({"type":"json_schema","json_schema":{"schema":[]}})",
         "response_format"},
        {{responses},
         cat(R"("text":{"format":{"type":"json_schema",)", inner, "}}"),
         schema,
         "5",
         R"({"format":{"type":"x"}})",
         "text"},
        {{anthropic},
         cat(R"("output_config":{"format":{"type":"json_schema",)", inner, "}}"),
         schema,
         "5",
         R"({"format":{"type":"text"}})",
         "output_config"},
        {{anthropic},
         cat(R"("output_format":{"type":"json_schema",)", inner, "}"),
         schema,
         "5",
         R"({"type":"json_schema","schema":1})",
         "output_format"},
    };
}

bool thinks(R r, int effort) {
    return r.answer.prompt.mode == PromptMode::thinking && r.answer.prompt.effort == effort;
}

std::vector<UsedField> thinking() {
    const auto off = [](R r) { return r.answer.prompt.mode == PromptMode::chat; };
    const auto at = [](int effort) { return [effort](R r) { return thinks(r, effort); }; };
    return {
        {{chat}, R"("reasoning_effort":"none")", off, "[]", R"("huge")"},
        {{chat}, R"("reasoning_effort":"minimal")", at(25), "[]", "0"},
        {{chat}, R"("reasoning_effort":"low")", at(50), "[]", "101"},
        {{chat}, R"("reasoning_effort":"medium")", at(62), "true", "0"},
        {{chat}, R"("reasoning_effort":"high")", at(75), "{}", "0"},
        {{chat}, R"("reasoning_effort":"xhigh")", at(88), "1.5", "0"},
        {{chat}, R"("reasoning_effort":"max")", at(100), "1.5", "0"},
        {{chat}, R"("reasoning_effort":33)", at(33), "1.5", "0"},
        {{responses},
         R"("reasoning":{"effort":"low","summary":"auto"})",
         at(50),
         "5",
         R"({"effort":"huge"})",
         "reasoning"},
        {{chat, anthropic},
         R"("thinking":{"type":"enabled","budget_tokens":2000})",
         at(75),
         R"({"type":5})",
         R"({"type":"enabled","budget_tokens":0})",
         "thinking"},
        {{chat, anthropic},
         R"("thinking":{"type":"adaptive"})",
         at(75),
         "5",
         R"({"type":"between_tools"})",
         "thinking"},
        {{chat, anthropic}, R"("thinking":{"type":"disabled"})", off, "{}", ""},
        {{chat}, R"("chat_template_kwargs":{"enable_thinking":true})", at(75), "5", ""},
        {{chat},
         R"("chat_template_kwargs":{"thinking":true,"reasoning_effort":"max"})",
         at(100),
         R"({"thinking":1})",
         "",
         "chat_template_kwargs"},
        {{chat}, R"("thinking":{"type":"disabled"},"reasoning_effort":"low")", off, "{}", ""},
        {{anthropic},
         R"("output_config":{"effort":"max"},"thinking":{"type":"adaptive"})",
         at(100),
         "5",
         R"({"effort":"huge"})",
         "output_config"},
        {{anthropic}, R"("output_config":{"effort":"max"})", off, "5", ""},
    };
}

void check_field(const UsedField& field) {
    const std::string name = name_of(field);
    for (const auto path : field.paths) {
        CAPTURE(path);
        CAPTURE(field.right);
        const auto right = parse_with(path, field.right);
        REQUIRE_MESSAGE(right, (right ? "" : right.error().message));
        CHECK(field.read(*right));
        CHECK(right->ignored.empty());
        CHECK(parse_with(path, cat('"', name, "\":null")).has_value());
        for (const std::string& value : {field.wrong_type, field.out_of_range}) {
            if (value.empty()) continue;
            CAPTURE(value);
            const auto wrong = parse_with(path, cat('"', name, "\":", value));
            REQUIRE_FALSE(wrong);
            CHECK(wrong.error().message.starts_with(field.field.empty() ? name : field.field));
            CHECK(http_status(wrong.error().code) == 400);
        }
    }
}

}  // namespace

TEST_CASE("sampling fields are read in every API, and checked") {
    for (const UsedField& field : sampling()) check_field(field);
}

TEST_CASE("limits, stops and streams are read and checked") {
    for (const UsedField& field : shared()) check_field(field);
}

TEST_CASE("formats of the answer are read and checked") {
    for (const UsedField& field : formats()) check_field(field);
}

TEST_CASE("thinking and its effort are read and checked") {
    for (const UsedField& field : thinking()) check_field(field);
}

TEST_CASE("what a request leaves open stays as the defaults say") {
    for (const auto path : openai) {
        CAPTURE(path);
        const auto request = parse_with(path, "");
        REQUIRE(request);
        CHECK(request->answer.predict == 1000);
        CHECK(request->answer.predict_must_fit);
        CHECK(request->answer.stop == std::vector<std::string>{"default stop"});
        CHECK(request->answer.sampler.temperature == 1.0);
        CHECK(request->answer.sampler.top_p == 0.95);
        CHECK_FALSE(request->answer.top_logprobs);
        CHECK_FALSE(request->stream);
        CHECK(request->parallel_calls);
        CHECK(request->answer.tool_choice == ToolChoice::automatic);
    }
}

TEST_CASE("a refused field is named, unless it asks for nothing") {
    struct Case {
        std::vector<std::string_view> paths;
        std::string members, message;
    };
    const std::vector<Case> cases{
        {openai, R"("n":2)", "n: only 1 answer per request"},
        {{completions}, R"("best_of":3)", "best_of: only 1 answer per request"},
        {{completions}, R"("echo":true)", "echo: the prompt is not returned"},
        {{completions}, R"("suffix":"x")", "suffix: this model does not fill gaps"},
        {openai, R"("moderation":{"model":"m"})", "moderation: answers are not moderated here"},
        {{chat}, R"("modalities":["text","audio"])", "modalities[1]: answers are text only"},
        {{chat}, R"("audio":{"voice":"x"})", "audio: answers are text only"},
        {{chat}, R"("functions":[])", "functions: not supported: use tools"},
        {{chat}, R"("function_call":"auto")", "function_call: not supported: use tool_choice"},
        {{chat}, R"("web_search_options":{})", "web_search_options: nothing is searched here"},
        {{responses},
         R"("previous_response_id":"resp_1")",
         "previous_response_id: responses are not stored here: send the whole conversation as "
         "input"},
        {{responses},
         R"("conversation":"c")",
         "conversation: responses are not stored here: send the whole conversation as input"},
        {{responses}, R"("prompt":{"id":"p"})", "prompt: there are no stored prompts: use input"},
        {{responses}, R"("background":true)", "background: nothing runs in the background here"},
        {{anthropic}, R"("container":"c")", "container: nothing is executed here"},
        {{anthropic}, R"("mcp_servers":[])", "mcp_servers: no other server is called from here"},
    };
    for (const Case& c : cases) {
        for (const auto path : c.paths) {
            CAPTURE(path);
            CAPTURE(c.members);
            const auto request = parse_with(path, c.members);
            REQUIRE_FALSE(request);
            CHECK(request.error().message == c.message);
            CHECK(request.error().code == Code::unsupported);
        }
    }
    CHECK(parse_with(completions, R"("echo":false,"suffix":"","best_of":1)"));
    CHECK(parse_with(chat, R"("modalities":["text"],"audio":null,"n":1)"));
    CHECK(parse_with(responses, R"("background":false,"previous_response_id":null)"));
}

TEST_CASE("fields without effect are listed whatever their values, and unknown ones too") {
    const auto request =
        parse_with(chat, R"("user":5,"metadata":[],"made_up":{"a":1},"store":true)");
    REQUIRE(request);
    CHECK(request->ignored == "user, metadata, made_up, store");
    for (const char* field :
         {"prediction", "verbosity", "service_tier", "safety_identifier", "prompt_cache_key",
          "prompt_cache_options", "prompt_cache_retention"}) {
        CAPTURE(field);
        CHECK(parse_with(chat, cat('"', field, "\":5"))->ignored == field);
    }
    CHECK(parse_with(responses, R"("truncation":"auto","max_tool_calls":1)")->ignored ==
          "truncation, max_tool_calls");
    CHECK(parse_with(anthropic, R"("cache_control":{},"metadata":{"user_id":"u"})")->ignored ==
          "cache_control, metadata");
    std::string many = R"("a\u001bb":1)";
    for (int i = 0; i < 1000; ++i) many += cat(",\"x", i, "\":1");
    const auto odd = parse_with(chat, many);
    REQUIRE(odd);
    CHECK(odd->ignored.starts_with("a\\x1bb, x0, x1"));
    CHECK(odd->ignored.ends_with(", ..."));
    CHECK(odd->ignored.size() < 500);
}

TEST_CASE("a body that is no JSON object is refused with its position") {
    for (const auto path : all) {
        CAPTURE(path);
        CHECK(refusal(path, "").starts_with("the request body is not valid JSON: line 1"));
        CHECK(refusal(path, "[]") == "the request body is not a JSON object");
        CHECK(refusal(path, R"({"model":"a","model":"b"})").find("duplicate key \"model\"") !=
              std::string::npos);
        CHECK(refusal(path, std::string(200, '[')).find("nested deeper than 128") !=
              std::string::npos);
        CHECK(refusal(path, "{\"model\":\"\xff\"}").find("not valid JSON") != std::string::npos);
        CHECK(http_status(dialect(path).parse("{", defaults()).error().code) == 400);
    }
}
