// Source of requests.h: Anthropic's /v1/messages.
#include <limits>
#include <utility>

#include "engine/text/python_json.h"
#include "io/text.h"
#include "tools/api/anthropic_messages.h"
#include "tools/api/common_fields.h"
#include "tools/api/content.h"
#include "tools/api/requests.h"
#include "tools/api/tool_fields.h"

namespace sluice {

namespace {

// In OpenAI's words, which are those of the model's chat encoding.
std::string declaration(const Json& tool) {
    std::string out = cat("{\"name\": ", python_json(tool["name"]));
    if (!tool["description"].is_null()) {
        out += cat(", \"description\": ", python_json(tool["description"]));
    }
    return cat(out, ", \"parameters\": ", python_json(tool["input_schema"]), "}");
}

Result<void> read_tools(const Json& value, Draft& draft) {
    if (!value.is_array()) return bad_value(value, "a list of tools");
    for (size_t i = 0; i < value.size(); ++i) {
        const Json tool = value.at(i);
        const Json type = tool["type"];
        if (!type.is_null() && text_of(type).value_or("") != "custom") {
            return fail(Code::unsupported, cat(type.path(),
                                               ": only custom is supported: this "
                                               "server has no tools of its own"));
        }
        const Json schema = tool["input_schema"];
        if (!schema.is_object()) return bad_value(schema, "a JSON schema, which is an object");
        auto declared = declare_tool(tool["name"], schema, declaration(tool), draft);
        if (!declared) return declared;
    }
    return {};
}

Result<void> read_choice(const Json& value, Draft& draft) {
    const Json type = value["type"];
    const auto name = text_of(type);
    if (!name) return tl::unexpected(name.error());
    const Json one_call = value["disable_parallel_tool_use"];
    if (!one_call.is_null()) {
        const auto only_one = truth(one_call);
        if (!only_one) return tl::unexpected(only_one.error());
        draft.out.parallel_calls = !*only_one;
    }
    if (*name == "tool") return choose_tool(value["name"], draft);
    return choose_by_word(type, *name, "any", draft);
}

Result<void> read_max_tokens(const Json& value, Draft& draft) {
    draft.answer().predict_must_fit = false;
    return store(integer_in(value, 1, std::numeric_limits<int64_t>::max()), draft.answer().predict);
}

Result<void> read_temperature(const Json& value, Draft& draft) {
    return store(number_in(value, 0, 1), draft.sampler().temperature);
}

Result<void> read_output_format(const Json& value, Draft& draft) {
    const Json type = value["type"];
    const auto name = text_of(type);
    if (!name) return tl::unexpected(name.error());
    if (*name != "json_schema") {
        return bad_value(type, cat("json_schema, found \"", printable(*name), "\""));
    }
    return set_schema(value["schema"], draft);
}

// An effort alone does not turn thinking on: `thinking` decides that.
Result<void> read_output_config(const Json& value, Draft& draft) {
    if (!value.is_object()) return bad_value(value, "an object");
    if (!value["effort"].is_null()) {
        const PromptMode mode = draft.answer().prompt.mode;
        if (auto done = read_effort(value["effort"], draft); !done) return done;
        draft.answer().prompt.mode = mode;
    }
    if (value["format"].is_null()) return {};
    return read_output_format(value["format"], draft);
}

constexpr Field fields[] = {
    {"model", Use::used, read_model},
    {"messages", Use::used, read_anthropic_messages},
    {"system", Use::used, read_system},
    {"max_tokens", Use::used, read_max_tokens},
    {"stream", Use::used, read_stream},
    {"stop_sequences", Use::used, read_stops},
    {"temperature", Use::used, read_temperature},
    {"thinking", Use::used, read_thinking},
    {"output_config", Use::used, read_output_config},
    {"output_format", Use::used, read_output_format},
    {"tools", Use::used, read_tools},
    {"tool_choice", Use::used, read_choice},
    {"container", Use::refused, nullptr, "nothing is executed here"},
    {"mcp_servers", Use::refused, nullptr, "no other server is called from here"},
    {"cache_control", Use::ignored},
    {"context_management", Use::ignored},
    {"diagnostics", Use::ignored},
    {"inference_geo", Use::ignored},
    {"metadata", Use::ignored},
    {"service_tier", Use::ignored},
    {"speed", Use::ignored},
    {"user_profile_id", Use::ignored},
    {"workspace_id", Use::ignored},
};

Result<void> finish(Draft& draft) {
    settle_thinking(draft);
    if (auto fine = check_tools(draft); !fine) return fine;
    draft.may_continue = true;
    return close_messages("messages", draft);
}

Result<ApiRequest> read(std::string_view body, const AnswerRequest& defaults, bool answered) {
    const auto json = parse_body(body);
    if (!json) return tl::unexpected(json.error());
    Draft draft(defaults);
    auto done = read_fields(*json, {fields, sampling_fields()}, draft);
    if (done && answered && (*json)["max_tokens"].is_null()) {
        return fail(Code::usage, "max_tokens: missing, expected a whole number");
    }
    if (done) done = finish(draft);
    if (!done) return tl::unexpected(std::move(done).error());
    return std::move(draft.out);
}

}  // namespace

Result<ApiRequest> parse_anthropic_count(std::string_view body, const AnswerRequest& defaults) {
    return read(body, defaults, false);
}

Result<ApiRequest> parse_anthropic(std::string_view body, const AnswerRequest& defaults) {
    return read(body, defaults, true);
}

}  // namespace sluice
