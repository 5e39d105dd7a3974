// Source of requests.h: /v1/completions.
#include <limits>
#include <utility>

#include "io/text.h"
#include "tools/api/common_fields.h"
#include "tools/api/requests.h"

namespace sluice {

namespace {

constexpr int64_t logprobs_max = 20;

Result<void> read_ids(const Json& value, Draft& draft) {
    for (size_t i = 0; i < value.size(); ++i) {
        const auto id = integer_in(value.at(i), 0, std::numeric_limits<int32_t>::max());
        if (!id) return tl::unexpected(id.error());
        draft.answer().ids.push_back(static_cast<int32_t>(*id));
    }
    return {};
}

// A text, a list of token ids, or a list of one of them.
Result<void> read_prompt(const Json& value, Draft& draft) {
    if (value.is_string()) return store(text_of(value), draft.answer().text);
    if (!value.is_array()) return bad_value(value, "a string or a list");
    if (value.size() == 0) return bad_value(value, "a list that is not empty");
    const Json first = value.at(0);
    if (first.is_number()) return read_ids(value, draft);
    if (value.size() > 1) {
        return fail(Code::unsupported, cat(value.path(), ": only 1 prompt per request"));
    }
    if (first.is_string()) return store(text_of(first), draft.answer().text);
    if (!first.is_array() || first.size() == 0) {
        return bad_value(first, "a string or a list of token ids");
    }
    return read_ids(first, draft);
}

// One field for both: how many of the most likely tokens, besides the one chosen.
Result<void> read_logprobs(const Json& value, Draft& draft) {
    return store(integer_in(value, 0, logprobs_max), draft.answer().top_logprobs);
}

Result<void> no_echo(const Json& value, Draft&) {
    const auto echo = truth(value);
    if (!echo) return tl::unexpected(echo.error());
    if (!*echo) return {};
    return fail(Code::unsupported, cat(value.path(), ": the prompt is not returned"));
}

Result<void> no_suffix(const Json& value, Draft&) {
    const auto suffix = text_of(value);
    if (!suffix) return tl::unexpected(suffix.error());
    if (suffix->empty()) return {};
    return fail(Code::unsupported, cat(value.path(), ": this model does not fill gaps"));
}

constexpr Field fields[] = {
    {"prompt", Use::used, read_prompt},     {"max_tokens", Use::used, read_token_limit},
    {"logprobs", Use::used, read_logprobs}, {"echo", Use::refused, no_echo},
    {"suffix", Use::refused, no_suffix},
};

}  // namespace

Result<ApiRequest> parse_completion(std::string_view body, const AnswerRequest& defaults) {
    const auto json = parse_body(body);
    if (!json) return tl::unexpected(json.error());
    Draft draft(defaults);
    auto done = read_fields(*json, {fields, sampling_fields(), openai_fields()}, draft);
    if (!done) return tl::unexpected(std::move(done).error());
    AnswerRequest& answer = draft.answer();
    if (answer.ids.empty() && !answer.text) return fail(Code::usage, "prompt: missing");
    return std::move(draft.out);
}

}  // namespace sluice
