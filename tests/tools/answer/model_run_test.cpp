// Sampling defaults and what flags change.
#include "tools/answer/model_run.h"

#include <doctest/doctest.h>

#include "tools/answer/request.h"

using namespace sluice;

TEST_CASE("sampling: the model's own values, otherwise those of the model card") {
    auto usual = model_sampling("");
    REQUIRE(usual);
    CHECK(usual->temperature == 1.0);
    CHECK(usual->top_p == 0.95);
    CHECK(usual->seed < uint64_t{1} << 53);
    auto own = model_sampling(
        "{\"temperature\":0.6,\"top_p\":0.8,\"top_k\":20,\"min_p\":0.05,"
        "\"repetition_penalty\":1.1,\"do_sample\":true,\"eos_token_id\":1}");
    REQUIRE(own);
    CHECK(own->temperature == 0.6);
    CHECK(own->top_p == 0.8);
    CHECK(own->top_k == 20);
    CHECK(own->min_p == 0.05);
    CHECK(own->repetition_penalty == 1.1);
    CHECK(model_sampling("{\"do_sample\":false,\"temperature\":0.6}")->temperature == 0.0);
    for (const char* bad : {"{\"temperature\":-1}", "{\"top_p\":0}", "{\"top_k\":-3}",
                            "{\"min_p\":1}", "{\"temperature\":\"hot\"}", "{"}) {
        CAPTURE(bad);
        auto refused = model_sampling(bad);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Code::corrupt);
        CHECK(!refused.error().message.empty());
    }
}

TEST_CASE("two random seeds differ") {
    CHECK(model_sampling("")->seed != model_sampling("")->seed);
}

TEST_CASE("flags override the model's own values, field by field") {
    ModelRun run;
    run.sampler = *model_sampling("{\"temperature\":0.6,\"top_p\":0.8}");
    Options options;
    options.temperature = 0.0;
    options.seed = 12;
    options.effort = 30;
    options.stop = {"x"};
    apply_options(run, options);
    CHECK(run.sampler.temperature == 0.0);
    CHECK(run.sampler.top_p == 0.8);
    CHECK(run.facts.seed == 12);
    CHECK(run.prompt.mode == PromptMode::thinking);
    CHECK(run.prompt.effort == 30);
    const AnswerRequest request = default_request(run, options);
    CHECK(request.stop == std::vector<std::string>{"x"});
    CHECK(request.prompt.mode == PromptMode::thinking);
    CHECK(request.sampler.seed == 12);
}
