#include "engine/text/logprobs.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace sluice;

TEST_CASE("logprobs: the log-softmax of the logits") {
    const std::vector<float> logits{0.5f, -1, 2, 0, 1.25f};
    double sum = 0;
    for (float logit : logits) sum += std::exp(double{logit});
    const TokenLogprobs got = log_probabilities(logits, 3, 2);
    CHECK(got.chosen.id == 3);
    CHECK(got.chosen.logprob == doctest::Approx(-std::log(sum)));
    REQUIRE(got.best.size() == 2);
    CHECK(got.best[0].id == 2);
    CHECK(got.best[0].logprob == doctest::Approx(2 - std::log(sum)));
    CHECK(got.best[1].id == 4);
    CHECK(log_probabilities(logits, 0, 0).best.empty());
    CHECK(log_probabilities(logits, 0, 20).best.size() == 5);
}

TEST_CASE("logprobs: ties go to the lower id and great logits overflow nothing") {
    const std::vector<float> logits{3e38f, 1, 3e38f, 3e38f, -3e38f};
    const TokenLogprobs got = log_probabilities(logits, 4, 2);
    CHECK(got.best[0].id == 0);
    CHECK(got.best[1].id == 2);
    CHECK(got.best[0].logprob == doctest::Approx(-std::log(3)));
    CHECK(std::isfinite(got.chosen.logprob));
    double sum = 0;
    for (const TokenLogprob& entry : log_probabilities(logits, 0, 5).best)
        sum += std::exp(entry.logprob);
    CHECK(sum == doctest::Approx(1));
}
