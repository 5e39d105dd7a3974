#include "tools/api/common_fields.h"

#include <array>
#include <utility>

#include "engine/text/stop_matcher.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr int64_t count_max = std::numeric_limits<int32_t>::max();

constexpr std::array<std::pair<std::string_view, int>, 6> efforts{{{"minimal", 25},
                                                                   {"low", effort_low},
                                                                   {"medium", 62},
                                                                   {"high", effort_high},
                                                                   {"xhigh", 88},
                                                                   {"max", effort_max}}};

Result<void> read_stream_options(const Json& value, Draft& draft) {
    if (!value.is_object()) return bad_value(value, "an object");
    const Json usage = value["include_usage"];
    if (usage.is_null()) return {};
    return store(truth(usage), draft.out.usage_in_stream);
}

// Both n and best_of.
Result<void> only_one(const Json& value, Draft&) {
    const auto count = integer_in(value, 1, count_max);
    if (!count) return tl::unexpected(count.error());
    if (*count == 1) return {};
    return fail(Code::unsupported, cat(value.path(), ": only 1 answer per request"));
}

constexpr Field openai[] = {
    {"model", Use::used, read_model},
    {"stream", Use::used, read_stream},
    {"stream_options", Use::used, read_stream_options},
    {"stop", Use::used, read_stops},
    {"n", Use::refused, only_one},
    {"best_of", Use::refused, only_one},
    {"metadata", Use::ignored},
    {"prompt_cache_key", Use::ignored},
    {"prompt_cache_options", Use::ignored},
    {"prompt_cache_retention", Use::ignored},
    {"safety_identifier", Use::ignored},
    {"service_tier", Use::ignored},
    {"store", Use::ignored},
    {"user", Use::ignored},
    {"moderation", Use::refused, nullptr, "answers are not moderated here"},
};

}  // namespace

FieldTable openai_fields() {
    return openai;
}

Result<void> read_token_limit(const Json& value, Draft& draft) {
    draft.answer().predict_must_fit = false;
    auto limit = integer_in(value, -1, std::numeric_limits<int64_t>::max());
    if (limit && *limit == 0) return bad_value(value, "a whole number from 1, or -1, found 0");
    return store(std::move(limit), draft.answer().predict);
}

Result<void> read_model(const Json& value, Draft& draft) {
    return store(text_of(value), draft.out.model);
}

Result<void> read_stream(const Json& value, Draft& draft) {
    return store(truth(value), draft.out.stream);
}

Result<void> read_stops(const Json& value, Draft& draft) {
    auto& stops = draft.answer().stop;
    stops.clear();
    if (!value.is_array() && !value.is_string()) {
        return bad_value(value, "a string or a list of strings");
    }
    const size_t count = value.is_array() ? value.size() : 1;
    if (count > StopMatcher::stops_max) {
        return bad_value(value, cat("at most ", StopMatcher::stops_max, " strings, found ", count));
    }
    for (size_t i = 0; i < count; ++i) {
        const Json item = value.is_array() ? value.at(i) : value;
        auto text = text_of(item);
        if (!text) return tl::unexpected(std::move(text).error());
        if (text->empty()) return bad_value(item, "a string that is not empty");
        stops.push_back(std::move(*text));
    }
    return {};
}

Result<void> read_effort(const Json& value, Draft& draft) {
    PromptOptions& prompt = draft.answer().prompt;
    constexpr std::string_view expected =
        "none, minimal, low, medium, high, xhigh, max or a whole number from 1 to 100";
    if (value.is_number()) {
        prompt.mode = PromptMode::thinking;
        return store(integer_in(value, effort_min, effort_max), prompt.effort.emplace());
    }
    const auto name = text_of(value);
    if (!name) return bad_value(value, expected);
    if (*name == "none") {
        prompt.mode = PromptMode::chat;
        return {};
    }
    for (const auto& [known, effort] : efforts) {
        if (known != *name) continue;
        prompt.mode = PromptMode::thinking;
        prompt.effort = effort;
        return {};
    }
    return bad_value(value, cat(expected, ", found \"", printable(*name), "\""));
}

void settle_thinking(Draft& draft) {
    if (!draft.thinking) return;
    draft.answer().prompt.mode = *draft.thinking ? PromptMode::thinking : PromptMode::chat;
}

Result<void> read_thinking(const Json& value, Draft& draft) {
    const Json type = value["type"];
    const auto name = text_of(type);
    if (!name) return tl::unexpected(name.error());
    if (*name == "enabled" || *name == "adaptive") {
        draft.thinking = true;
    } else if (*name == "disabled") {
        draft.thinking = false;
    } else {
        return fail(Code::unsupported, cat(type.path(), ": only enabled, adaptive and disabled"));
    }
    const Json budget = value["budget_tokens"];
    if (budget.is_null()) return {};
    const auto tokens = integer_in(budget, 1, std::numeric_limits<int64_t>::max());
    if (!tokens) return tl::unexpected(tokens.error());
    return {};
}

}  // namespace sluice
