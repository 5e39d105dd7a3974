// What a server reads from the client's request is what was asked for here.
#include "tools/client/chat_body.h"

#include "tests/support/temp_folder.h"
#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const std::vector<Message> messages = {{Role::system, "Be \"brief\".", ""},
                                       {Role::user, "\xc3\xbc?", ""},
                                       {Role::assistant, "a", "because"},
                                       {Role::user, "b\n", ""}};

ApiRequest served(const Options& options, uint64_t seed = 1) {
    const auto format = format_of(options.format);
    REQUIRE(format);
    return parsed(chat, chat_body(messages, options, "tiny", seed, *format));
}

}  // namespace

TEST_CASE("a request to a server holds the conversation and asks for a stream with usage") {
    const ApiRequest out = served({});
    CHECK(out.stream);
    CHECK(out.usage_in_stream);
    CHECK(out.model == "tiny");
    CHECK(out.ignored == "");
    REQUIRE(out.answer.messages.size() == messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
        CHECK(out.answer.messages[i].role == messages[i].role);
        CHECK(out.answer.messages[i].content == messages[i].content);
        CHECK(out.answer.messages[i].reasoning == messages[i].reasoning);
    }
}

TEST_CASE("what the options leave open is left to the server but for the seed") {
    const AnswerRequest out = served({}, 0xffffffffffffff00).answer;
    const AnswerRequest wanted = defaults();
    CHECK(out.predict == wanted.predict);
    CHECK(out.stop == wanted.stop);
    CHECK(out.sampler.temperature == wanted.sampler.temperature);
    CHECK(out.sampler.top_p == wanted.sampler.top_p);
    CHECK(out.prompt.mode == wanted.prompt.mode);
    CHECK(out.prompt.effort == wanted.prompt.effort);
    CHECK(out.format == ResponseFormat::text);
    CHECK(out.sampler.seed == 0xffffffffffffff00);
}

TEST_CASE("every option of an answer reaches the server") {
    Options options;
    options.temperature = 0.1;
    options.top_k = 7;
    options.top_p = 0.3;
    options.min_p = 0.01;
    options.repeat_penalty = 1.3;
    options.predict = 17;
    options.stop = {"a", "\n"};
    options.ignore_eos = true;
    options.loop_guard = 64;
    options.effort = 33;
    const AnswerRequest out = served(options).answer;
    CHECK(out.sampler.temperature == 0.1);
    CHECK(out.sampler.top_k == 7);
    CHECK(out.sampler.top_p == 0.3);
    CHECK(out.sampler.min_p == 0.01);
    CHECK(out.sampler.repetition_penalty == 1.3);
    CHECK(out.predict == 17);
    CHECK(out.stop == options.stop);
    CHECK(out.ignore_eos);
    CHECK(out.loop_guard == 64);
    CHECK(out.prompt.mode == PromptMode::thinking);
    CHECK(out.prompt.effort == 33);
}

TEST_CASE("reasoning that is asked for or not wanted reaches the server") {
    Options options;
    options.reasoning = Reasoning::on;
    CHECK(served(options).answer.prompt.mode == PromptMode::thinking);
    CHECK(served(options).answer.prompt.effort == defaults().prompt.effort);
    options.reasoning = Reasoning::off;
    CHECK(served(options).answer.prompt.mode == PromptMode::chat);
}

TEST_CASE("the form of an answer reaches the server") {
    const TempFolder folder;
    Options options;
    options.format = "json";
    CHECK(served(options).answer.format == ResponseFormat::json_object);
    options.format = folder / "schema.json";
    write_file(options.format, R"({"type": "object"})");
    CHECK(served(options).answer.format == ResponseFormat::json_schema);
    CHECK(served(options).answer.schema == R"({"type": "object"})");
}
