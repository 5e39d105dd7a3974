#include "engine/text/sampler.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace sluice;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_logit = std::numeric_limits<float>::quiet_NaN();

// Neutral options, for tests to change.
SamplerOptions plain() {
    SamplerOptions options;
    options.top_p = 1;
    return options;
}

int32_t one(const SamplerOptions& options, const std::vector<float>& logits,
            const std::vector<int32_t>& recent = {}) {
    REQUIRE(check(options));
    Sampler sampler(options);
    auto id = sampler.sample(logits, recent);
    REQUIRE_MESSAGE(id, (id ? "" : id.error().message));
    return *id;
}

std::vector<int32_t> many(const SamplerOptions& options, const std::vector<float>& logits,
                          int count, const std::vector<int32_t>& recent = {}) {
    Sampler sampler(options);
    std::vector<int32_t> ids;
    for (int i = 0; i < count; ++i) ids.push_back(sampler.sample(logits, recent).value());
    return ids;
}

std::map<int32_t, double> shares(const SamplerOptions& options, const std::vector<float>& logits,
                                 const std::vector<int32_t>& recent = {}) {
    constexpr int count = 40000;
    std::map<int32_t, double> out;
    for (int32_t id : many(options, logits, count, recent)) out[id] += 1.0 / count;
    return out;
}

}  // namespace

TEST_CASE("sampler: temperature 0 is greedy, the lowest id among equals") {
    SamplerOptions options = plain();
    for (double zero : {0.0, -0.0}) {
        options.temperature = zero;
        CHECK(one(options, {1, 3, 3, 2}) == 1);
        CHECK(one(options, {-5}) == 0);
        CHECK(one(options, {0.0f, -0.0f}) == 0);
        CHECK(one(options, {-0.0f, 0.0f}) == 0);
        CHECK(one(options, {1, 2, inf > 0 ? 3.0f : 0.0f}) == 2);
    }
}

TEST_CASE("sampler: tiny temperatures behave as their limit, huge ones as uniform") {
    SamplerOptions options = plain();
    for (double tiny : {1e-4, 1e-30, 1e-300, 5e-324}) {
        options.temperature = tiny;
        for (int32_t id : many(options, {1, 3, 2.9f, -1e30f}, 200)) CHECK(id == 1);
        // The limit of a tie is a fair draw between the tied.
        const auto tied = shares(options, {1, 3, 3, 0});
        CHECK(tied.size() == 2);
        CHECK(tied.at(1) == doctest::Approx(0.5).epsilon(0.03));
    }
    options.temperature = 1e30;
    const auto flat = shares(options, {1000, -1000, 0, 5});
    CHECK(flat.size() == 4);
    for (const auto& [id, share] : flat) CHECK(share == doctest::Approx(0.25).epsilon(0.05));
    options.top_k = 1;  // still the best one, although all weights are equal
    for (int32_t id : many(options, {1, 3, 2}, 50)) CHECK(id == 1);
}

TEST_CASE("sampler: frequencies follow softmax of logits over temperature") {
    SamplerOptions options = plain();
    const std::vector<float> logits{0, 1, 2, -1, 0.5f};
    for (double temperature : {0.5, 1.0, 2.0}) {
        options.temperature = temperature;
        double sum = 0;
        for (float logit : logits) sum += std::exp(logit / temperature);
        const auto seen = shares(options, logits);
        for (size_t i = 0; i < logits.size(); ++i) {
            const double expected = std::exp(logits[i] / temperature) / sum;
            CHECK(std::abs(seen.at(static_cast<int32_t>(i)) - expected) < 0.01);
        }
    }
}

TEST_CASE("sampler: top_k keeps the k best, lower ids first at a tie") {
    SamplerOptions options = plain();
    options.top_k = 2;
    const auto tied = shares(options, {5, 1, 4, 4, 4});
    CHECK(tied.size() == 2);
    CHECK(tied.count(0) == 1);
    CHECK(tied.count(2) == 1);
    CHECK(tied.at(2) == doctest::Approx(1 / (1 + std::exp(1.0))).epsilon(0.03));
    options.top_k = 1;
    for (int32_t id : many(options, {4, 5, 5}, 50)) CHECK(id == 1);
    options.top_k = 5;
    CHECK(shares(options, {0, 0, 0, 0, 0}).size() == 5);
    options.top_k = 6;
    Sampler sampler(options);
    const auto refused = sampler.sample(std::vector<float>(5), {});
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::usage);
    CHECK(refused.error().message.find("--top-k 6") != std::string::npos);
}

TEST_CASE("sampler: top_p keeps the smallest set that reaches it") {
    SamplerOptions options = plain();
    const auto logit = [](double p) { return static_cast<float>(std::log(p)); };
    const std::vector<float> logits{logit(0.15), logit(0.5), logit(0.05), logit(0.3)};
    const std::pair<double, size_t> cases[] = {{1e-9, 1}, {0.49, 1}, {0.51, 2}, {0.79, 2},
                                               {0.81, 3}, {0.94, 3}, {0.96, 4}, {1.0, 4}};
    for (const auto& [top_p, kept] : cases) {
        options.top_p = top_p;
        CAPTURE(top_p);
        CHECK(shares(options, logits).size() == kept);
    }
    options.top_p = 0.7;
    CHECK(shares(options, logits).at(1) == doctest::Approx(0.5 / 0.8).epsilon(0.02));
    // top_p counts within what top_k keeps: the best token has 0.5 / 0.8 = 0.625 of it.
    options.top_k = 2;
    options.top_p = 0.6;
    CHECK(shares(options, logits).size() == 1);
    options.top_p = 0.65;
    CHECK(shares(options, logits).size() == 2);
}

TEST_CASE("sampler: min_p counts from the best token") {
    SamplerOptions options = plain();
    const auto logit = [](double p) { return static_cast<float>(std::log(p)); };
    const std::vector<float> logits{logit(0.1), logit(0.6), logit(0.3)};
    const std::pair<double, size_t> cases[] = {
        {0.0, 3}, {0.16, 3}, {0.17, 2}, {0.51, 1}, {0.999, 1}};
    for (const auto& [min_p, kept] : cases) {
        options.min_p = min_p;
        CAPTURE(min_p);
        CHECK(shares(options, logits).size() == kept);
    }
}

TEST_CASE("sampler: the penalty divides positive logits, multiplies negative ones, once per id") {
    SamplerOptions options = plain();
    options.temperature = 0;
    options.repetition_penalty = 2;
    CHECK(one(options, {4, 3}, {}) == 0);
    CHECK(one(options, {4, 3}, {0}) == 1);
    CHECK(one(options, {5, 2}, {0, 0, 0}) == 0);  // 2.5, not 0.6
    CHECK(one(options, {-1, -1.5f}, {0}) == 1);
    CHECK(one(options, {-1, -3}, {0}) == 0);
    options.repetition_penalty = 0.5;
    CHECK(one(options, {3, 4}, {0}) == 0);
    for (double extreme : {1e-300, 1e300}) {
        options.repetition_penalty = extreme;
        options.temperature = 1;
        CHECK_NOTHROW(one(options, {3e38f, -3e38f, 1}, {0, 1, 2}));
    }
    for (int32_t outside : {-1, 2, INT32_MAX}) {
        Sampler sampler(options);
        const auto refused = sampler.sample(std::vector<float>{1, 2}, std::vector{outside});
        REQUIRE(!refused);
        CHECK(refused.error().code == Code::usage);
    }
}

TEST_CASE("sampler: a non-finite logit is an error, wherever it is") {
    for (double temperature : {0.0, 1.0}) {
        for (float bad : {nan_logit, inf, -inf}) {
            for (size_t at : {0u, 3u, 6u}) {
                SamplerOptions options;
                options.temperature = temperature;
                Sampler sampler(options);
                std::vector<float> logits(7, 1.0f);
                logits[at] = bad;
                const auto result = sampler.sample(logits, std::vector<int32_t>{1, 2});
                REQUIRE(!result);
                CHECK(result.error().code == Code::numerical);
                CHECK(result.error().message.find("id " + std::to_string(at)) != std::string::npos);
                CHECK(result.error().message.find("position 2") != std::string::npos);
            }
        }
        Sampler sampler(SamplerOptions{});
        CHECK(!sampler.sample(std::vector<float>(5, -inf), {}));
        CHECK(!sampler.sample({}, {}));
    }
}

TEST_CASE("sampler: options out of range are refused, naming field and value") {
    const auto refused = [](auto change, const char* field) {
        SamplerOptions options;
        change(options);
        const auto result = check(options);
        CAPTURE(field);
        REQUIRE(!result);
        CHECK(result.error().code == Code::usage);
        CHECK(result.error().message.find(field) == 0);
        CHECK(result.error().message.find("out of range") != std::string::npos);
    };
    using O = SamplerOptions;
    constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
    constexpr double inf_value = std::numeric_limits<double>::infinity();
    for (double bad : {-1e-9, -1.0, nan_value, inf_value, -inf_value})
        refused([&](O& o) { o.temperature = bad; }, "temperature");
    for (int32_t bad : {-1, INT32_MIN}) refused([&](O& o) { o.top_k = bad; }, "top_k");
    for (double bad : {0.0, -0.0, 1.1, -1.0, nan_value, inf_value})
        refused([&](O& o) { o.top_p = bad; }, "top_p");
    for (double bad : {1.0, -0.1, nan_value, inf_value})
        refused([&](O& o) { o.min_p = bad; }, "min_p");
    for (double bad : {0.0, -1.0, nan_value, inf_value})
        refused([&](O& o) { o.repetition_penalty = bad; }, "repetition_penalty");
    for (double good : {0.0, -0.0, 1e-30, 0.7, 1e30}) {
        SamplerOptions options;
        options.temperature = good;
        CHECK(check(options));
    }
}

TEST_CASE("sampler: a seed gives its sequence, another seed another") {
    SamplerOptions options = plain();
    const std::vector<float> logits(50, 1.0f);
    options.seed = 1;
    const auto first = many(options, logits, 100);
    CHECK(many(options, logits, 100) == first);
    options.seed = 2;
    const auto second = many(options, logits, 100);
    CHECK(second != first);
    // Interleaved with another sampler, each keeps its own.
    SamplerOptions other = options;
    other.seed = 1;
    Sampler a(other), b(options);
    for (size_t i = 0; i < 100; ++i) {
        CHECK(a.sample(logits, {}).value() == first[i]);
        CHECK(b.sample(logits, {}).value() == second[i]);
    }
    for (uint64_t seed : {uint64_t{0}, ~uint64_t{0}}) {
        options.seed = seed;
        CHECK(shares(options, {0, 0}).size() == 2);
    }
}

TEST_CASE("sampler: each step takes one random number, whatever it did with it") {
    SamplerOptions options = plain();
    options.seed = 9;
    const std::vector<float> even(40, 0.0f);
    std::vector<float> certain(40, -1e30f);
    certain[7] = 0;
    const auto expected = many(options, even, 3);
    Sampler sampler(options);
    CHECK(sampler.sample(certain, {}).value() == 7);
    CHECK(sampler.sample(even, {}).value() == expected[1]);
    CHECK(sampler.sample(even, {}).value() == expected[2]);
}

TEST_CASE("sampler: a full vocabulary, beyond the first sorted step") {
    std::mt19937 random(5);
    std::vector<float> logits(129280);
    for (float& logit : logits) logit = static_cast<float>(random() % 4096) / 4096;
    SamplerOptions options;
    options.top_p = 0.95;
    const auto ids = many(options, logits, 20);
    CHECK(many(options, logits, 20) == ids);
    options.top_p = 1;
    CHECK(many(options, logits, 5).size() == 5);
    options.top_k = 129280;
    CHECK(many(options, logits, 5).size() == 5);
    options.temperature = 1e-30;
    options.top_k = 0;
    const auto best = std::max_element(logits.begin(), logits.end());
    for (int32_t id : many(options, logits, 5)) CHECK(logits[static_cast<size_t>(id)] == *best);
}

TEST_CASE("sampler: the additive penalties count generated tokens only") {
    SamplerOptions options = plain();
    options.temperature = 0;
    const auto one_of = [&](const std::vector<float>& logits, const std::vector<int32_t>& tokens,
                            size_t prompt) {
        Sampler sampler(options);
        return sampler.choose(logits, SamplerContext{tokens, prompt}).value();
    };
    options.presence_penalty = 1;
    CHECK(one_of({4, 3.5f}, {0, 0}, 2) == 0);
    CHECK(one_of({4, 3.5f}, {0, 0}, 1) == 1);
    CHECK(one_of({4, 2.9f}, {0, 0, 0}, 0) == 0);  // once: 3
    options.frequency_penalty = 0.5;
    CHECK(one_of({4, 2.1f}, {0, 0}, 0) == 1);  // 4 - 1 - 2 * 0.5 = 2
    CHECK(one_of({4, 1.9f}, {0, 0}, 0) == 0);
    options.presence_penalty = -1;
    options.frequency_penalty = 0;
    CHECK(one_of({4, 3.5f}, {1}, 0) == 1);
    for (int32_t outside : {-1, 2}) {
        Sampler sampler(options);
        const std::vector<int32_t> tokens{outside};
        CHECK(!sampler.choose(std::vector<float>{1, 2}, SamplerContext{tokens, 0}));
    }
}

TEST_CASE("sampler: biases are added to logits") {
    SamplerOptions options = plain();
    options.temperature = 0;
    options.logit_bias = {{2, 5.0}, {0, -100.0}};
    CHECK(one(options, {9, 4, 0}) == 2);
    options.temperature = 1;
    options.logit_bias = {{0, -100.0}, {2, std::log(3.0)}};
    const auto seen = shares(options, {0, 0, 0});
    CHECK(seen.count(0) == 0);
    CHECK(seen.at(2) == doctest::Approx(0.75).epsilon(0.02));
    options.logit_bias = {{3, 1.0}};
    Sampler sampler(options);
    const auto refused = sampler.sample(std::vector<float>(3), {});
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::usage);
    CHECK(refused.error().message.find("id 3") != std::string::npos);
}

TEST_CASE("sampler: penalties and biases out of range are refused") {
    constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
    for (double bad : {-2.1, 2.1, nan_value}) {
        SamplerOptions options;
        options.presence_penalty = bad;
        CHECK(check(options).error().message.find("presence_penalty") == 0);
        options.presence_penalty = 2;
        options.frequency_penalty = bad;
        CHECK(check(options).error().message.find("frequency_penalty") == 0);
        options.frequency_penalty = -2;
        CHECK(check(options));
    }
    for (double bad : {-100.5, 101.0, nan_value}) {
        SamplerOptions options;
        options.logit_bias = {{1, 100}, {7, bad}};
        CHECK(check(options).error().message.find("logit_bias of id 7") == 0);
    }
    SamplerOptions options;
    options.logit_bias.resize(logit_bias_max + 1);
    CHECK(check(options).error().message.find("1025 entries") != std::string::npos);
}

TEST_CASE("sampler: a mask leaves its ids and the random numbers as they are") {
    const std::vector<float> logits{3, 1, 4, 1, 5, 4, 2, 4};
    TokenMask some(6);
    for (int32_t id : {1, 2, 5}) some.add(id);
    SamplerOptions options = plain();
    options.temperature = 0;
    Sampler greedy(options);
    CHECK(greedy.choose(logits, SamplerContext{{}, 0, &some}).value() == 2);  // not 5: a tie
    options.temperature = 1;
    std::map<int32_t, double> seen;
    Sampler sampler(options);
    for (int i = 0; i < 40000; ++i)
        seen[sampler.choose(logits, SamplerContext{{}, 0, &some}).value()] += 1.0 / 40000;
    CHECK(seen.size() == 3);
    const double sum = std::exp(1.0) + 2 * std::exp(4.0);
    CHECK(seen.at(1) == doctest::Approx(std::exp(1.0) / sum).epsilon(0.1));
    CHECK(seen.at(2) == doctest::Approx(std::exp(4.0) / sum).epsilon(0.03));
    // A full mask is none; a mask of one id takes one random number, too.
    options.top_p = 0.9;
    TokenMask all(8), only(8);
    all.fill();
    only.add(3);
    Sampler with(options), without(options);
    for (int i = 0; i < 500; ++i) {
        if (i % 3 == 0) {
            CHECK(with.choose(logits, SamplerContext{{}, 0, &only}).value() == 3);
            CHECK(without.sample(logits, {}));
            continue;
        }
        CHECK(with.choose(logits, SamplerContext{{}, 0, &all}).value() ==
              without.sample(logits, {}).value());
    }
    options.top_k = 7;  // more than the mask leaves
    Sampler many_best(options);
    for (int i = 0; i < 50; ++i)
        CHECK(some.has(many_best.choose(logits, SamplerContext{{}, 0, &some}).value()));
    const TokenMask none(8);
    CHECK(!many_best.choose(logits, SamplerContext{{}, 0, &none}));
}
