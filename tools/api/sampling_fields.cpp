// Source of common_fields.h: sampling.
#include <charconv>
#include <limits>
#include <utility>

#include "io/text.h"
#include "tools/api/common_fields.h"

namespace sluice {

namespace {

constexpr int64_t top_k_max = std::numeric_limits<int32_t>::max();
constexpr double temperature_max = 2, penalty_max = 2, bias_max = 100, repetition_max = 10;

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
    auto top_k = integer_in(value, -1, top_k_max);
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

Result<void> read_presence_penalty(const Json& value, Draft& draft) {
    return store(number_in(value, -penalty_max, penalty_max), draft.sampler().presence_penalty);
}

Result<void> read_frequency_penalty(const Json& value, Draft& draft) {
    return store(number_in(value, -penalty_max, penalty_max), draft.sampler().frequency_penalty);
}

Result<void> read_logit_bias(const Json& value, Draft& draft) {
    if (!value.is_object()) return bad_value(value, "an object of token ids and numbers");
    if (value.size() > logit_bias_max)
        return bad_value(value, cat("at most ", logit_bias_max, " tokens"));
    auto& biases = draft.sampler().logit_bias;
    biases.clear();
    Result<void> result;
    value.each_member([&](std::string_view key, const Json& bias) {
        int32_t id = 0;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (error != std::errc() || end != key.data() + key.size() || id < 0) {
            result = bad_value(value, cat("token ids as keys, found \"", printable(key), "\""));
        } else if (const auto number = number_in(bias, -bias_max, bias_max); !number) {
            result = tl::unexpected(number.error());
        } else {
            biases.push_back({id, *number});
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

Result<void> read_loop_guard(const Json& value, Draft& draft) {
    const auto guard = integer_in(value, 0, 65536);
    if (guard && *guard > 0 && *guard < 16) {
        return bad_value(value, cat("0 (off) or 16 to 65536, found ", *guard));
    }
    return store(guard, draft.answer().loop_guard);
}

constexpr Field sampling[] = {
    {"temperature", Use::used, read_temperature},
    {"top_p", Use::used, read_top_p},
    {"top_k", Use::used, read_top_k},
    {"min_p", Use::used, read_min_p},
    {"repetition_penalty", Use::used, read_repetition_penalty},
    {"repeat_penalty", Use::used, read_repetition_penalty},
    {"presence_penalty", Use::used, read_presence_penalty},
    {"frequency_penalty", Use::used, read_frequency_penalty},
    {"logit_bias", Use::used, read_logit_bias},
    {"seed", Use::used, read_seed},
    {"ignore_eos", Use::used, read_ignore_eos},
    {"loop_guard", Use::used, read_loop_guard},
};

}  // namespace

FieldTable sampling_fields() {
    return sampling;
}

}  // namespace sluice
