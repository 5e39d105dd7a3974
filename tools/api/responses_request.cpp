// Source of requests.h: /v1/responses.
#include <utility>

#include "engine/text/python_json.h"
#include "io/text.h"
#include "tools/api/common_fields.h"
#include "tools/api/content.h"
#include "tools/api/requests.h"
#include "tools/api/responses_input.h"
#include "tools/api/tool_fields.h"

namespace sluice {

namespace {

constexpr int64_t top_logprobs_max = 20;

// The declaration that chat completions have nested: this one without its type.
std::string declaration(const Json& tool) {
    std::string out;
    tool.each_member([&](std::string_view key, const Json& member) {
        if (key == "type") return true;
        out += cat(out.empty() ? "" : ", ", json_quote(key), ": ", python_json(member));
        return true;
    });
    return cat("{", out, "}");
}

Result<void> read_tools(const Json& value, Draft& draft) {
    if (!value.is_array()) return bad_value(value, "a list of tools");
    for (size_t i = 0; i < value.size(); ++i) {
        const Json tool = value.at(i);
        const auto kind = text_of(tool["type"]);
        if (!kind) return tl::unexpected(kind.error());
        if (*kind != "function") {
            return fail(Code::unsupported,
                        cat(tool["type"].path(), ": only function is supported"));
        }
        auto declared = declare_tool(tool["name"], tool["parameters"], declaration(tool), draft);
        if (!declared) return declared;
    }
    return {};
}

Result<void> read_instructions(const Json& value, Draft& draft) {
    return store(text_of(value), draft.instructions);
}

Result<void> read_reasoning(const Json& value, Draft& draft) {
    if (!value.is_object()) return bad_value(value, "an object");
    const Json effort = value["effort"];
    if (effort.is_null()) return {};
    return read_effort(effort, draft);
}

Result<void> read_text(const Json& value, Draft& draft) {
    if (!value.is_object()) return bad_value(value, "an object");
    const Json format = value["format"];
    if (format.is_null()) return {};
    return read_format(format, draft);
}

// Log-probabilities are asked for by name; the other things do not exist here.
Result<void> read_include(const Json& value, Draft& draft) {
    if (!value.is_array()) return bad_value(value, "a list of names");
    for (size_t i = 0; i < value.size(); ++i) {
        const auto name = text_of(value.at(i));
        if (!name) return tl::unexpected(name.error());
        if (*name == "message.output_text.logprobs") draft.logprobs = true;
    }
    return {};
}

Result<void> read_top_logprobs(const Json& value, Draft& draft) {
    return store(integer_in(value, 0, top_logprobs_max), draft.top_logprobs);
}

Result<void> not_in_background(const Json& value, Draft&) {
    const auto background = truth(value);
    if (!background) return tl::unexpected(background.error());
    if (!*background) return {};
    return fail(Code::unsupported, cat(value.path(), ": nothing runs in the background here"));
}

constexpr std::string_view not_stored =
    "responses are not stored here: send the whole conversation as input";

constexpr Field fields[] = {
    {"input", Use::used, read_input},
    {"instructions", Use::used, read_instructions},
    {"max_output_tokens", Use::used, read_token_limit},
    {"reasoning", Use::used, read_reasoning},
    {"text", Use::used, read_text},
    {"tools", Use::used, read_tools},
    {"tool_choice", Use::used, read_tool_choice},
    {"parallel_tool_calls", Use::used, read_parallel_calls},
    {"include", Use::used, read_include},
    {"top_logprobs", Use::used, read_top_logprobs},
    {"previous_response_id", Use::refused, nullptr, not_stored},
    {"conversation", Use::refused, nullptr, not_stored},
    {"prompt", Use::refused, nullptr, "there are no stored prompts: use input"},
    {"background", Use::refused, not_in_background},
    {"access_programs", Use::ignored},
    {"background_options", Use::ignored},
    {"context_management", Use::ignored},
    {"image", Use::ignored},
    {"max_tool_calls", Use::ignored},
    {"truncation", Use::ignored},
};

Result<void> finish(Draft& draft) {
    if (draft.top_logprobs.value_or(0) > 0) draft.logprobs = true;
    if (draft.logprobs) draft.answer().top_logprobs = draft.top_logprobs.value_or(0);
    if (auto fine = check_tools(draft); !fine) return fine;
    return close_messages("input", draft);
}

}  // namespace

Result<ApiRequest> parse_responses(std::string_view body, const AnswerRequest& defaults) {
    const auto json = parse_body(body);
    if (!json) return tl::unexpected(json.error());
    Draft draft(defaults);
    auto done = read_fields(*json, {fields, sampling_fields(), openai_fields()}, draft);
    if (done) done = finish(draft);
    if (!done) return tl::unexpected(std::move(done).error());
    return std::move(draft.out);
}

}  // namespace sluice
