// Source of requests.h: /v1/chat/completions.
#include <utility>

#include "engine/text/python_json.h"
#include "io/text.h"
#include "tools/api/chat_messages.h"
#include "tools/api/common_fields.h"
#include "tools/api/content.h"
#include "tools/api/requests.h"
#include "tools/api/tool_fields.h"

namespace sluice {

namespace {

constexpr int64_t top_logprobs_max = 20;

Result<void> read_tools(const Json& value, Draft& draft) {
    if (!value.is_array()) return bad_value(value, "a list of tools");
    for (size_t i = 0; i < value.size(); ++i) {
        const Json type = value.at(i)["type"];
        const auto kind = text_of(type);
        if (!kind) return tl::unexpected(kind.error());
        if (*kind != "function") {
            return fail(Code::unsupported, cat(type.path(), ": only function is supported"));
        }
        const Json function = value.at(i)["function"];
        auto declared =
            declare_tool(function["name"], function["parameters"], python_json(function), draft);
        if (!declared) return declared;
    }
    return {};
}

Result<void> read_logprobs(const Json& value, Draft& draft) {
    return store(truth(value), draft.logprobs);
}

Result<void> read_top_logprobs(const Json& value, Draft& draft) {
    return store(integer_in(value, 0, top_logprobs_max), draft.top_logprobs);
}

Result<void> only_text(const Json& value, Draft&) {
    if (!value.is_array()) return bad_value(value, "a list of modalities");
    for (size_t i = 0; i < value.size(); ++i) {
        const auto name = text_of(value.at(i));
        if (!name) return tl::unexpected(name.error());
        if (*name != "text") {
            return fail(Code::unsupported, cat(value.at(i).path(), ": answers are text only"));
        }
    }
    return {};
}

// As other servers take them, where the template of the chat has variables of these names.
Result<void> read_template_options(const Json& value, Draft& draft) {
    if (!value.is_object()) return bad_value(value, "an object");
    if (!value["reasoning_effort"].is_null()) {
        if (auto done = read_effort(value["reasoning_effort"], draft); !done) return done;
    }
    for (const char* name : {"thinking", "enable_thinking"}) {
        if (value[name].is_null()) continue;
        const auto on = truth(value[name]);
        if (!on) return tl::unexpected(on.error());
        draft.thinking = *on;
    }
    return {};
}

constexpr Field fields[] = {
    {"messages", Use::used, read_chat_messages},
    {"max_tokens", Use::used, read_token_limit},
    {"max_completion_tokens", Use::used, read_token_limit},
    {"logprobs", Use::used, read_logprobs},
    {"top_logprobs", Use::used, read_top_logprobs},
    {"reasoning_effort", Use::used, read_effort},
    {"thinking", Use::used, read_thinking},
    {"chat_template_kwargs", Use::used, read_template_options},
    {"response_format", Use::used, read_format},
    {"tools", Use::used, read_tools},
    {"tool_choice", Use::used, read_tool_choice},
    {"parallel_tool_calls", Use::used, read_parallel_calls},
    {"modalities", Use::refused, only_text},
    {"audio", Use::refused, nullptr, "answers are text only"},
    {"functions", Use::refused, nullptr, "not supported: use tools"},
    {"function_call", Use::refused, nullptr, "not supported: use tool_choice"},
    {"web_search_options", Use::refused, nullptr, "nothing is searched here"},
    {"prediction", Use::ignored},
    {"verbosity", Use::ignored},
};

Result<void> finish(Draft& draft) {
    if (draft.top_logprobs && !draft.logprobs) {
        return fail(Code::usage, "top_logprobs: needs logprobs: true");
    }
    if (draft.logprobs) draft.answer().top_logprobs = draft.top_logprobs.value_or(0);
    settle_thinking(draft);
    if (auto fine = check_tools(draft); !fine) return fine;
    return close_messages("messages", draft);
}

}  // namespace

Result<ApiRequest> parse_chat(std::string_view body, const AnswerRequest& defaults) {
    const auto json = parse_body(body);
    if (!json) return tl::unexpected(json.error());
    Draft draft(defaults);
    auto done = read_fields(*json, {fields, sampling_fields(), openai_fields()}, draft);
    if (done) done = finish(draft);
    if (!done) return tl::unexpected(std::move(done).error());
    return std::move(draft.out);
}

}  // namespace sluice
