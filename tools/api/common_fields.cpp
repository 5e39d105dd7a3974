#include "tools/api/common_fields.h"

#include <array>
#include <charconv>
#include <utility>

#include "engine/text/stop_matcher.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr int64_t tokens_max = std::numeric_limits<int32_t>::max();
constexpr double temperature_max = 2, penalty_max = 2, bias_max = 100, repetition_max = 10;
constexpr size_t biases_max = 1024;

constexpr std::array<std::pair<std::string_view, int>, 6> efforts{
    {{"minimal", 25}, {"low", 50}, {"medium", 62}, {"high", 75}, {"xhigh", 88}, {"max", 100}}};

Result<void> read_temperature(const Json& value, Draft& draft) {
    return store(number_in(value, 0, temperature_max), draft.sampler().temperature);
}

// 0 asks for the most likely token alone, which the sampler writes as the least positive number.
Result<void> read_top_p(const Json& value, Draft& draft) {
    auto top_p = number_in(value, 0, 1);
    if (top_p && *top_p == 0) *top_p = std::numeric_limits<double>::min();
    return store(std::move(top_p), draft.sampler().top_p);
}

// -1 is another way to write 0, all.
Result<void> read_top_k(const Json& value, Draft& draft) {
    auto top_k = integer_in(value, -1, tokens_max);
    if (top_k && *top_k == -1) *top_k = 0;
    return store(std::move(top_k), draft.sampler().top_k);
}

Result<void> read_min_p(const Json& value, Draft& draft) {
    auto min_p = number_in(value, 0, 1);
    if (min_p && *min_p == 1) return bad_value(value, "a number from 0 to below 1, found 1");
    return store(std::move(min_p), draft.sampler().min_p);
}

Result<void> read_repetition_penalty(const Json& value, Draft& draft) {
    auto penalty = number_in(value, 0, repetition_max);
    if (penalty && *penalty == 0) return bad_value(value, "a number above 0, found 0");
    return store(std::move(penalty), draft.sampler().repetition_penalty);
}

// Penalties and biases that change nothing are accepted.
Result<void> read_additive_penalty(const Json& value, Draft&) {
    const auto penalty = number_in(value, -penalty_max, penalty_max);
    if (!penalty) return tl::unexpected(penalty.error());
    if (*penalty == 0) return {};
    return fail(Code::unsupported, cat(value.path(), ": not supported, other than 0"));
}

Result<void> read_logit_bias(const Json& value, Draft&) {
    if (!value.is_object()) return bad_value(value, "an object of token ids and numbers");
    if (value.size() > biases_max) return bad_value(value, cat("at most ", biases_max, " tokens"));
    Result<void> result;
    value.each_member([&](std::string_view key, const Json& bias) {
        int32_t id = 0;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (error != std::errc() || end != key.data() + key.size() || id < 0) {
            result = bad_value(value, cat("token ids as keys, found \"", printable(key), "\""));
        } else if (const auto number = number_in(bias, -bias_max, bias_max); !number) {
            result = tl::unexpected(number.error());
        } else if (*number != 0) {
            result = fail(Code::unsupported, cat(bias.path(), ": not supported, other than 0"));
        }
        return result.has_value();
    });
    return result;
}

Result<void> read_seed(const Json& value, Draft& draft) {
    return store(
        integer_in(value, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()),
        draft.sampler().seed);
}

Result<void> read_ignore_eos(const Json& value, Draft& draft) {
    return store(truth(value), draft.answer().ignore_eos);
}

Result<void> read_stream_options(const Json& value, Draft& draft) {
    if (!value.is_object()) return bad_value(value, "an object");
    const Json usage = value["include_usage"];
    if (usage.is_null()) return {};
    return store(truth(usage), draft.out.usage_in_stream);
}

// Both n and best_of.
Result<void> only_one(const Json& value, Draft&) {
    const auto count = integer_in(value, 1, tokens_max);
    if (!count) return tl::unexpected(count.error());
    if (*count == 1) return {};
    return fail(Code::unsupported, cat(value.path(), ": only 1 answer per request"));
}

constexpr Field sampling[] = {
    {"temperature", Use::used, read_temperature},
    {"top_p", Use::used, read_top_p},
    {"top_k", Use::used, read_top_k},
    {"min_p", Use::used, read_min_p},
    {"repetition_penalty", Use::used, read_repetition_penalty},
    {"repeat_penalty", Use::used, read_repetition_penalty},
    {"presence_penalty", Use::used, read_additive_penalty},
    {"frequency_penalty", Use::used, read_additive_penalty},
    {"logit_bias", Use::used, read_logit_bias},
    {"seed", Use::used, read_seed},
    {"ignore_eos", Use::used, read_ignore_eos},
};

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

FieldTable sampling_fields() {
    return sampling;
}

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
        return store(integer_in(value, 1, 100), prompt.effort);
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
