// The answer loop on scripted logits, with the real tokenizer.
#include "tools/answer/generate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/model/deepseek/chat_parts.h"
#include "io/json.h"
#include "tests/support/tokenizers.h"
#include "tools/answer/answer_format.h"
#include "tools/answer/report.h"

using namespace sluice;

namespace {

const Tokenizer& tokenizer() {
    return test::tiny_tokenizer();
}

int32_t added(const char* name) {
    auto id = tokenizer().id(name);
    REQUIRE(id);
    return *id;
}

const int32_t eos = 1;

// Plays tokens one after the other, then the end token; can fail or plant a value at one of them.
class Script : public TokenSource {
 public:
    explicit Script(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
    std::optional<std::pair<size_t, Error>> failure;
    std::optional<std::pair<size_t, float>> planted;
    std::function<void(size_t)> on_feed;
    std::vector<size_t> fed;

    Result<int32_t> rewind_to_prefix(std::span<const int32_t>) override { return 0; }
    Result<std::span<const float>> feed(std::span<const int32_t> ids) override {
        fed.push_back(ids.size());
        size_t step = fed.size() - 1;
        if (on_feed) on_feed(step);
        if (failure && failure->first == step) return tl::unexpected(failure->second);
        logits_.assign(static_cast<size_t>(tokenizer().size()), 0.0f);
        logits_[static_cast<size_t>(step < tokens_.size() ? tokens_[step] : eos)] = 10.0f;
        if (planted && planted->first == step) logits_[3] = planted->second;
        return std::span<const float>(logits_);
    }
    Result<int32_t> feed_best(std::span<const int32_t> ids) override {
        auto logits = feed(ids);
        if (!logits) return tl::unexpected(logits.error());
        SamplerOptions options;
        options.temperature = 0;
        return Sampler(options).sample(*logits, {});
    }
    RunStats stats() const override { return {}; }

 private:
    std::vector<int32_t> tokens_;
    std::vector<float> logits_;
};

GenerateOptions greedy() {
    GenerateOptions options;
    options.sampler.temperature = 0;
    options.context = 1000;
    options.stream.tokens = &deepseek::chat_tokens;
    return options;
}

struct Seen {
    Answer answer;
    std::string content, reasoning;  // as streamed
};

const std::vector<int32_t> prompt = {0, 5, 6};

Result<Answer> play(Script& script, const GenerateOptions& options, Seen* seen = nullptr) {
    const int32_t ends[] = {eos};
    return generate(script, tokenizer(), ends, prompt, options,
                    [&](const AnswerStream::Piece& piece) {
                        if (seen)
                            seen->content += piece.content, seen->reasoning += piece.reasoning;
                        return true;
                    });
}

Seen answer_of(std::vector<int32_t> tokens, const GenerateOptions& options) {
    Script script(std::move(tokens));
    Seen seen;
    auto answer = play(script, options, &seen);
    REQUIRE(answer);
    seen.answer = std::move(*answer);
    return seen;
}

std::vector<int32_t> ids(std::string_view text) {
    return tokenizer().encode(text);
}

// A token for each byte, so that characters are split everywhere.
std::vector<int32_t> byte_ids(std::string_view text) {
    std::vector<int32_t> out;
    for (char c : text) {
        auto one = tokenizer().encode(std::string_view(&c, 1));
        REQUIRE(one.size() == 1);
        out.push_back(one.front());
    }
    return out;
}

}  // namespace

TEST_CASE("an answer ends at the end token, and the stream equals the complete text") {
    auto seen = answer_of(ids("Hello, wörld! 日本 😀"), greedy());
    CHECK(seen.answer.text == "Hello, wörld! 日本 😀");
    CHECK(seen.content == seen.answer.text);
    CHECK(seen.answer.finish == Finish::stop);
    CHECK(seen.answer.completion_tokens == ids("Hello, wörld! 日本 😀").size() + 1);
    CHECK(seen.answer.prompt_tokens == 3);
}

TEST_CASE("characters split over tokens come out complete, broken ones as U+FFFD") {
    CHECK(answer_of(byte_ids("é日😀z"), greedy()).content == "é日😀z");
    CHECK(answer_of(byte_ids("a\xf0\x9f\x98"), greedy()).content == "a\xef\xbf\xbd");
    CHECK(answer_of(byte_ids("a\xff z"), greedy()).content == "a\xef\xbf\xbd z");
}

TEST_CASE("stop strings end the answer, also across tokens, and no part of them is shown") {
    auto options = greedy();
    options.stream.stop = {"beta gamma", "\n\n"};
    for (auto tokens : {ids("alpha beta gamma delta"), byte_ids("alpha beta gamma delta")}) {
        auto seen = answer_of(tokens, options);
        CHECK(seen.content == "alpha ");
        CHECK(seen.answer.text == "alpha ");
        CHECK(seen.answer.finish == Finish::stop);
        CHECK(seen.answer.stop == "beta gamma");
    }
    CHECK(answer_of(byte_ids("a\n\nb"), options).content == "a");
    CHECK(answer_of(byte_ids("beta gam"), options).content == "beta gam");
}

TEST_CASE("lengths: predict, the context, and a prompt that leaves no room") {
    auto options = greedy();
    options.predict = 2;
    auto two = answer_of(byte_ids("abcdef"), options);
    CHECK(two.content == "ab");
    CHECK(two.answer.finish == Finish::length);
    CHECK(two.answer.completion_tokens == 2);
    options.predict = 1;
    CHECK(answer_of(byte_ids("abcdef"), options).content == "a");
    options.predict = -1;
    options.context = 6;
    auto full = answer_of(byte_ids("abcdef"), options);
    CHECK(full.answer.prompt_tokens + full.answer.completion_tokens == 6);
    CHECK(full.answer.finish == Finish::length);
    options.context = 4;
    CHECK(answer_of(byte_ids("abcdef"), options).content == "a");
    options.context = 3;
    Script script(byte_ids("abc"));
    auto refused = play(script, options);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::usage);
    CHECK(refused.error().message.find("3 tokens and the context 3") != std::string::npos);
    CHECK(script.fed.empty());
}

TEST_CASE("the end token has no text, and --ignore-eos continues after it") {
    auto options = greedy();
    options.stream.ignore_eos = true;
    options.predict = 6;
    auto seen = answer_of({ids("a")[0], eos, ids("b")[0]}, options);
    CHECK(seen.answer.completion_tokens == 6);
    CHECK(seen.answer.finish == Finish::length);
    CHECK(seen.content.find("<") == std::string::npos);
}

TEST_CASE("thinking: reasoning and content are separate, also when reasoning never ends") {
    auto options = greedy();
    options.stream.mode = PromptMode::thinking;
    options.stream.stop = {"mind"};  // not searched for in reasoning
    auto tokens = ids("let me mind");
    tokens.push_back(added("</think>"));
    auto rest = ids("yes");
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    auto seen = answer_of(tokens, options);
    CHECK(seen.reasoning == "let me mind");
    CHECK(seen.content == "yes");
    CHECK(seen.answer.reasoning_tokens > 0);
    CHECK_FALSE(seen.answer.unclosed);

    auto open = answer_of(ids("only thoughts"), options);
    CHECK(open.answer.unclosed);
    CHECK(open.answer.text == "only thoughts");
    CHECK(open.answer.reasoning.empty());
    CHECK(open.answer.reasoning_tokens == 0);

    options.stream.unclosed = Unclosed::stays_reasoning;
    options.predict = 3;
    auto cut = answer_of(ids("only thoughts that take long"), options);
    CHECK_FALSE(cut.answer.unclosed);
    CHECK(cut.answer.cut_reasoning);
    CHECK_FALSE(open.answer.cut_reasoning);
    CHECK(cut.answer.finish == Finish::length);
    CHECK(cut.answer.reasoning == cut.reasoning);
    CHECK(std::string("only thoughts that take long").starts_with(cut.reasoning));
    CHECK(cut.reasoning.size() >= 3);
    CHECK(cut.content.empty());
    CHECK(cut.answer.text.empty());
    CHECK(cut.answer.reasoning_tokens == 3);
}

TEST_CASE("a non-finite logit ends the answer, whatever the sampling") {
    for (float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
        for (double temperature : {0.0, 1.0}) {
            CAPTURE(bad);
            CAPTURE(temperature);
            auto options = greedy();
            options.sampler.temperature = temperature;
            Script first(byte_ids("abc"));
            first.planted = {0, bad};
            auto refused = play(first, options);
            REQUIRE_FALSE(refused);
            CHECK(refused.error().code == Code::numerical);
            Script later(byte_ids("abc"));
            later.planted = {2, bad};
            auto answer = play(later, options);
            REQUIRE(answer);
            CHECK(answer->finish == Finish::error);
            REQUIRE(answer->error);
            CHECK(answer->error->code == Code::numerical);
        }
    }
}

TEST_CASE("errors and interruptions keep the text so far") {
    Script broken(byte_ids("abcdef"));
    broken.failure = {3, Error{Code::io, "shard 1: read failed"}};
    auto answer = play(broken, greedy());
    REQUIRE(answer);
    CHECK(answer->text == "abc");
    CHECK(answer->finish == Finish::error);
    CHECK(answer_json(*answer, {}).find("shard 1: read failed") != std::string::npos);

    std::atomic<bool> cancel{false};
    auto options = greedy();
    options.cancel = &cancel;
    Script stopped(byte_ids("abcdef"));
    stopped.on_feed = [&](size_t step) { cancel = step == 2; };
    auto partial = play(stopped, options);
    REQUIRE(partial);
    CHECK(partial->finish == Finish::interrupted);
    CHECK(partial->text == "abc");

    Script early(byte_ids("abc"));
    early.failure = {0, Error{Code::interrupted, "interrupted"}};
    auto nothing = play(early, greedy());
    REQUIRE_FALSE(nothing);
    CHECK(nothing.error().code == Code::interrupted);
}

TEST_CASE("a reader that has gone ends the answer within a token") {
    Script script(byte_ids("abcdef"));
    const int32_t ends[] = {eos};
    int pieces = 0;
    auto answer = generate(script, tokenizer(), ends, prompt, greedy(),
                           [&](const AnswerStream::Piece&) { return ++pieces < 2; });
    REQUIRE(answer);
    CHECK(answer->finish == Finish::interrupted);
    CHECK(script.fed.size() == 2);
}

TEST_CASE("room: prompt and answer fit exactly, or the error has the numbers") {
    CHECK(check_room(10, 20, 30));
    CHECK(check_room(29, 1, 30));
    CHECK(check_room(29, -1, 30));
    const auto refused = [](size_t prompt, int64_t predict) {
        auto room = check_room(prompt, predict, 30);
        REQUIRE_FALSE(room);
        CHECK(room.error().code == Code::usage);
        return room.error().message;
    };
    CHECK(refused(10, 21) ==
          "the prompt has 10 tokens and the context 30: no room for 21 more (-n); raise -c, or "
          "lower -n to 20 (-1: as many as fit)");
    CHECK(refused(30, -1).find("no room for an answer") != std::string::npos);
    CHECK(refused(31, 5).find("no room for an answer") != std::string::npos);
    CHECK(refused(1, INT64_MAX).find("lower -n to 29") != std::string::npos);
}

TEST_CASE("the loop guard has its own finish reason") {
    auto options = greedy();
    options.stream.loop_guard = 16;
    auto seen = answer_of(std::vector<int32_t>(100, ids("a")[0]), options);
    CHECK(seen.answer.finish == Finish::loop);
    CHECK(seen.answer.completion_tokens == 16);
}

TEST_CASE("limits from measured rates: the longest of drive, link, cpu and gpu is the bottleneck") {
    RunStats run;
    run.expert_bytes = 4000, run.row_bytes = 0;
    run.ring.bytes = 4000, run.ring.busy_s = 2.0;  // 2000 B/s
    run.compute_s = 1.0;
    auto limit = limit_of(run, 10, 4.0);  // 400 B per token: 0.2 s; compute 0.1 s
    CHECK(limit.drive_s == doctest::Approx(0.2));
    CHECK(limit.cpu_s == doctest::Approx(0.1));
    CHECK(limit.tok_s == doctest::Approx(5));
    CHECK(limit.share == doctest::Approx(0.5));
    CHECK(std::string(limit.binds) == "drive");
    run.compute_s = 3.0;
    CHECK(std::string(limit_of(run, 10, 4.0).binds) == "cpu");
    CHECK(limit_of(run, 10, 4.0).share == doctest::Approx(0.75));
    // With a GPU, the CPU's term is the time it computed, not the time it was idle.
    run.device.launches = 100, run.host_s = 0.5;
    CHECK(std::string(limit_of(run, 10, 4.0).binds) == "drive");
    CHECK(limit_of(run, 10, 4.0).cpu_s == doctest::Approx(0.05));
    run.device.busy_s = 2.5;
    CHECK(std::string(limit_of(run, 10, 4.0).binds) == "gpu");
    run.device.upload_s = 3.2;
    CHECK(std::string(limit_of(run, 10, 4.0).binds) == "link");
    CHECK(limit_of(run, 10, 4.0).tok_s == doctest::Approx(1 / 0.32));
    run.host_s = 3.6;
    CHECK(std::string(limit_of(run, 10, 4.0).binds) == "cpu");
    CHECK(limit_of(run, 10, 4.0).share == doctest::Approx(0.9));
    CHECK(limit_of(run, 0, 4.0).tok_s == 0);
    CHECK(limit_of({}, 10, 4.0).tok_s == 0);
}

TEST_CASE("the report lists drives: bytes of both parts, shares, and the final state of each") {
    const auto drive = [](uint64_t bytes, uint64_t experts, double busy_s) {
        DriveStats stats;
        stats.folder = "/a";
        stats.reads = 1, stats.bytes = bytes, stats.busy_s = busy_s, stats.expert_bytes = experts;
        return stats;
    };
    Answer answer = answer_of(byte_ids("a"), greedy()).answer;
    answer.prompt.drives = {drive(4'000'000, 1'000'000, 0.5), drive(1'000'000, 1'000'000, 0.5)};
    answer.decode.drives = {drive(6'000'000, 5'000'000, 0.5), drive(0, 1'000'000, 0)};
    answer.decode.drives[1].state = DriveStats::State::left_out;
    answer.decode.drives[1].cause = "shard 1: EIO";
    auto json = Json::parse(answer_json(answer, {}));
    REQUIRE(json);
    const Json drives = (*json)["io"]["drives"];
    REQUIRE(drives.size() == 2);
    CHECK(drives.at(0)["folder"].string().value() == "/a");
    CHECK(drives.at(0)["reads"].integer().value() == 2);
    CHECK(drives.at(0)["bytes"].integer().value() == 10'000'000);
    CHECK(drives.at(0)["gb_s"].number().value() == doctest::Approx(0.01));
    CHECK(drives.at(0)["expert_share"].number().value() == doctest::Approx(0.75));
    CHECK(drives.at(0)["state"].string().value() == "in use");
    CHECK_FALSE(drives.at(0).has("cause"));
    CHECK(drives.at(1)["state"].string().value() == "left out");
    CHECK(drives.at(1)["cause"].string().value() == "shard 1: EIO");
    const std::string text = stats_block(answer, {});
    for (const char* part : {"/a: 9.54 MiB, 0.010 GB/s while busy, 75.0 % of expert bytes; in use",
                             "25.0 % of expert bytes; no longer used: shard 1: EIO"}) {
        CHECK(text.find(part) != std::string::npos);
    }
}

TEST_CASE("the JSON object has every promised member and is one line") {
    auto answer = answer_of(byte_ids("a \"q\"\n"), greedy()).answer;
    RunFacts facts;
    facts.model = "m", facts.device = "cpu", facts.seed = 9007199254740991u;
    auto text = answer_json(answer, facts);
    CHECK(text.find('\n') == std::string::npos);
    auto json = Json::parse(text);
    REQUIRE(json);
    CHECK((*json)["text"].string().value() == "a \"q\"\n");
    CHECK((*json)["finish_reason"].string().value() == "stop");
    CHECK((*json)["seed"].integer().value() == 9007199254740991);
    auto usage = (*json)["usage"];
    CHECK(usage["total_tokens"].integer().value() ==
          usage["prompt_tokens"].integer().value() + usage["completion_tokens"].integer().value());
    for (const char* name : {"reasoning", "timings", "cache", "io", "limit", "model", "device"})
        CHECK(json->has(name));
    for (const char* name : {"tok_s", "share", "binds"}) CHECK((*json)["limit"].has(name));
    CHECK((*json)["timings"].has("prompt_tok_s"));
}

namespace {

// Fed with a script whose tokens a constraint may forbid: then another one comes.
Answer constrained(Script& script, GenerateOptions options,
                   std::shared_ptr<TokenConstraint> constraint) {
    options.constraint = std::move(constraint);
    auto answer = play(script, options);
    REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
    return *answer;
}

std::shared_ptr<TokenConstraint> under_schema(const std::string& schema) {
    const int32_t ends[] = {eos};
    auto grammar = answer_grammar({ResponseFormat::json_schema, schema});
    REQUIRE(grammar);
    return answer_constraint(tokenizer(), ends, *grammar);
}

}  // namespace

TEST_CASE("generate: a constraint replaces what it forbids and ends the complete answer") {
    std::vector<int32_t> wanted = tokenizer().encode("{\"a\":12}");
    wanted.push_back(wanted[0]);  // more would come
    Script script(wanted);
    const auto schema = R"({"type": "object", "properties": {"a": {"type": "integer"}},
                            "required": ["a"]})";
    const Answer fits = constrained(script, greedy(), under_schema(schema));
    CHECK(fits.text == "{\"a\":12}");
    CHECK(fits.finish == Finish::stop);
    CHECK(fits.completion_tokens == wanted.size() - 1);
    Script other(tokenizer().encode("Hello"));
    const Answer bent = constrained(other, greedy(), under_schema(R"({"enum": ["no"]})"));
    CHECK(bent.text == "\"no\"");
    Script number({tokenizer().encode("7").front()});  // then the end token
    const Answer seven = constrained(number, greedy(), under_schema(R"({"type": "integer"})"));
    CHECK(seven.text == "7");
    CHECK(seven.finish == Finish::stop);
}

TEST_CASE("generate: a constraint begins behind the reasoning, which must end by itself") {
    GenerateOptions options = greedy();
    options.stream.mode = PromptMode::thinking;
    std::vector<int32_t> tokens = tokenizer().encode("free");
    tokens.push_back(eos);  // not allowed here
    tokens.push_back(added("</think>"));
    for (int32_t id : tokenizer().encode("{}")) tokens.push_back(id);
    Script script(tokens);
    const Answer answer = constrained(script, options, under_schema(R"({"type": "object"})"));
    CHECK(answer.reasoning.starts_with("free"));
    CHECK(!answer.unclosed);
    CHECK(answer.text == "{}");
}

TEST_CASE("generate: a forced prefix and then anything") {
    const auto prefix = tokenizer().encode("To be");
    Script script(tokenizer().encode("This and that"));
    CallRule rule{prefix, true};
    const Answer answer =
        constrained(script, greedy(), answer_constraint(tokenizer(), {}, {}, rule));
    CHECK(answer.text.starts_with("To be"));
    CHECK(answer.completion_tokens > prefix.size());
    // Both may come: the first token decides.
    const auto json = answer_grammar({ResponseFormat::json_object});
    rule.required = false;
    const int32_t ends[] = {eos};
    Script call(prefix);
    CHECK(constrained(call, greedy(), answer_constraint(tokenizer(), ends, *json, rule)).text ==
          "To be");
    Script object(tokenizer().encode("{}"));
    CHECK(constrained(object, greedy(), answer_constraint(tokenizer(), ends, *json, rule)).text ==
          "{}");
    CHECK(answer_constraint(tokenizer(), ends, {}) == nullptr);
}

TEST_CASE("generate: log-probabilities of the content without the end token") {
    GenerateOptions options = greedy();
    options.stream.mode = PromptMode::thinking;
    options.top_logprobs = 2;
    std::vector<int32_t> tokens{5, added("</think>"), 300, 301};
    Script script(tokens);
    std::vector<TokenLogprobs> streamed;
    const int32_t ends[] = {eos};
    const auto answer =
        generate(script, tokenizer(), ends, prompt, options, [&](const AnswerStream::Piece& piece) {
            for (const auto& entry : piece.logprobs) streamed.push_back(entry);
            return true;
        });
    REQUIRE(answer);
    REQUIRE(answer->logprobs.size() == 2);
    REQUIRE(streamed.size() == 2);
    CHECK(answer->logprobs[0].chosen.id == 300);
    CHECK(streamed[1].chosen.id == 301);
    CHECK(streamed[1].best[0].id == 301);
    CHECK(streamed[1].best[1].id == 0);  // a tie of all others
    const double others = tokenizer().size() - 1;
    CHECK(streamed[0].chosen.logprob == doctest::Approx(-std::log(1 + others * std::exp(-10.0))));
    options.top_logprobs = 21;
    const auto refused = play(script, options);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::usage);
    CHECK(refused.error().message.find("top_logprobs 21") == 0);
}

TEST_CASE("generate: additive penalties leave the prompt out") {
    GenerateOptions options = greedy();
    options.sampler.presence_penalty = 2;
    options.sampler.frequency_penalty = 2;
    // All logits are 0 but for the script's token: 5 and 6 are in the prompt.
    Script script({5, 5, 5, 5});
    const auto answer = play(script, options);
    REQUIRE(answer);
    // 10 - 2 - 2 n of the nth repetition, against 0.
    CHECK(answer->text == tokenizer().decode({5, 5, 5, 5}));
    options.sampler.logit_bias = {{5, -100}, {300, 1}};
    Script biased({5});  // then the end token
    CHECK(play(biased, options)->text == tokenizer().decode({300}));
}
