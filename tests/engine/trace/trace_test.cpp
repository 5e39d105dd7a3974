// Trace files, and comparison with them.
#include "engine/trace/trace.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/models.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

const std::string good =
    R"({"format":"sluice-reference-trace-1","model":"m","index_keys":"own",)"
    R"("tolerance":{"tie_margin":1.0,"logits_rel_median":0.05,"logits_rel_max":0.4},)"
    R"("prompt":[0,5],"tokens":[7,1],"steps":[)"
    R"({"pos":1,"token":7,"top_ids":[7,3],"top_logits":[2.5,1.0]},)"
    R"({"pos":2,"token":1,"top_ids":[1,3],"top_logits":[2.5,1.0]}]})";

Result<Trace> read(const std::string& text) {
    TempFolder folder;
    write_file(folder / "t.json", text);
    return read_trace(folder / "t.json");
}

std::string edited(const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    return text.replace(at, from.size(), to);
}

std::string with(const std::string& key, const std::string& value) {
    return edited("}]}", "}],\"" + key + "\":" + value + "}");
}

std::string prompt_step(int position, const std::string& more) {
    return "{\"pos\":" + std::to_string(position) + "," + more +
           "\"top_ids\":[4],\"top_logits\":[2]}";
}

}  // namespace

TEST_CASE("a trace file is read") {
    const auto trace = read(good);
    REQUIRE_MESSAGE(trace, (trace ? "" : trace.error().message));
    CHECK(trace->name == "t.json");
    CHECK(!trace->exact);
    CHECK(trace->tie_margin == 1.0);
    CHECK(trace->steps[1].ids == std::vector<int32_t>{1, 3});
    CHECK(trace->steps[0].logits[0] == 2.5f);
}

TEST_CASE("an invalid trace is refused, naming file and field") {
    const std::vector<std::pair<std::string, std::string>> bad = {
        {edited("sluice-reference-trace-1", "other"), "format"},
        {edited("\"own\"", "\"both\""), "index_keys"},
        {edited("\"logits_rel_max\":0.4", "\"x\":1"), "logits_rel_max"},
        {edited("[0,5]", "[]"), "prompt"},
        {edited("[0,5]", "[0,-5]"), "prompt"},
        {edited("[0,5]", "[0,5000000000]"), "prompt"},
        {edited("[7,1]", "[7]"), "steps"},
        {edited("\"pos\":2", "\"pos\":3"), "pos"},
        {edited("\"token\":1,", "\"token\":3,"), "steps[1].token"},
        {edited("[2.5,1.0]", "[2.5]"), "top_logits"},
        {edited("[7,3]", "[]"), "top_ids"},
        {edited("\"tokens\":[7,1],", ""), "tokens"},
        {edited("[7,3]", "[7,7]"), "steps[0].top_ids: 7 appears twice"},
        {edited("[7,3]", "[3,7]"), "steps[0].top_ids: 3 is the best id, but tokens[0] is 7"},
        {edited("[2.5,1.0]", "[1.0,2.5]"), "steps[0].top_logits: not best first: 2.5 after 1"},
        {edited("}]}", "}],\"prompt_steps\":[{\"pos\":0,\"top_ids\":[4,4],\"top_logits\":[2,1]}]}"),
         "prompt_steps[0].top_ids: 4 appears twice"},
        {edited("\"token\":1,", "\"token\":-1,"), "steps[1].token: -1 is not a token id"},
        {edited("\"token\":1,", "\"token\":4294967297,"), "steps[1].token: 4294967297"},
        {edited("\"pos\":2", "\"pos\":4294967298"), "steps[1].pos: 4294967298"},
        {edited("[2.5,1.0]", "{\"a\":2.5,\"b\":1}"), "steps[0]: top_ids and top_logits"},
        {edited("[2.5,1.0]", "[1e300,1.0]"), "steps[0].top_logits[0]"},
        {edited("\"m\"", "5"), "model: expected"},
        {edited("\"tie_margin\":1.0", "\"tie_margin\":-1"),
         "tolerance.tie_margin: must not be below 0"},
        {with("origin", "[]"), "origin: expected"},
        {with("prompt_steps", "0"), "prompt_steps: must be a list"},
        {with("prompt_steps", "\"x\""), "prompt_steps: must be a list"},
        {with("prompt_steps", "{}"), "prompt_steps: must be a list"},
        {with("prompt_steps", "null"), "prompt_steps: must be a list"},
        {with("prompt_steps", "[" + prompt_step(0, "") + "]"), "prompt_steps: 1 for 2 prompt"},
        {with("prompt_steps", "[" + prompt_step(0, "\"token\":4,") + "]"),
         "prompt_steps[0].token: 4"},
        {with("mode", "0"), "mode: expected"},
        {with("mode", "\"x\""), "mode: \"x\""},
        {with("messages", "null"), "messages: must be a list"},
        {with("messages", "\"x\""), "messages: must be a list"},
        {with("messages", "[1]"), "messages[0].role"},
        {with("messages", R"([{"role":"user","content":0}])"), "messages[0].content"},
        {with("drafts", "{}"), "drafts: must be a list"},
        {with("drafts", R"([{"pos":-1}])"), "drafts[0].pos: -1"},
        {with("drafts", R"([{"pos":0,"ids":[1],"confidence":[1],"slots":[]}])"),
         "drafts[0].confidence: 1 for 1 ids"},
        {with("drafts", R"([{"pos":0,"ids":[1,2],"confidence":["x"],"slots":[0]}])"),
         "drafts[0].confidence[0]"},
        {with("drafts", R"([{"pos":0,"ids":[1,2],"confidence":[1],"slots":[0]}])"),
         "drafts[0].slots[0].top_ids"},
        {"[]", "format"},
        {"{", "t.json"},
        {"", "t.json"},
    };
    for (const auto& [text, field] : bad) {
        const auto trace = read(text);
        CAPTURE(text);
        REQUIRE(!trace);
        CHECK(trace.error().message.find("t.json") != std::string::npos);
        CHECK(trace.error().message.find(field) != std::string::npos);
    }
}

TEST_CASE("every golden trace is accepted, with every optional field") {
    const auto files = find_traces({test::golden_folder});
    REQUIRE(files);
    CHECK(files->size() == 25);
    for (const auto& file : *files) {
        const auto trace = read_trace(file);
        CHECK_MESSAGE(trace, (trace ? "" : trace.error().message));
    }
    for (const std::string token : {"", "\"token\":-1,"}) {
        const auto trace = read(
            with("prompt_steps", "[" + prompt_step(0, token) + "," + prompt_step(1, "") + "]"));
        REQUIRE_MESSAGE(trace, (trace ? "" : trace.error().message));
        CHECK(trace->prompt_steps.size() == 2);
    }
    CHECK(read(with("prompt_steps", "[]")));
    CHECK(read(edited("\"index_keys\":\"own\",", ""))->index_keys == IndexKeys::own);
    CHECK(read(with("mode", "\"thinking\"")));
}

TEST_CASE("among ids with equal logits either may be the token") {
    CHECK(read(edited("[7,3],\"top_logits\":[2.5,1.0]", "[3,7],\"top_logits\":[2.5,2.5]")));
    CHECK(!read(edited("[7,3],\"top_logits\":[2.5,1.0]", "[3,4],\"top_logits\":[2.5,2.5]")));
}

TEST_CASE("traces are found by file and by folder") {
    TempFolder folder;
    write_file(folder / "b.json", good);
    write_file(folder / "a.json", good);
    write_file(folder / "note.txt", "x");
    const auto found = find_traces({folder.path().string(), (folder / "note.txt").string()});
    REQUIRE(found);
    REQUIRE(found->size() == 3);
    CHECK((*found)[0].filename() == "a.json");
    CHECK((*found)[2].filename() == "note.txt");
    CHECK(find_traces({(folder / "none").string()}).error().code == Code::not_found);
    TempFolder empty;
    CHECK(find_traces({empty.path().string()}).error().code == Code::not_found);
}

TEST_CASE("an own trace repeats bit by bit, and one changed bit is detected") {
    auto engine = test::load_engine(test::model_options("dsv41-tiny"));
    auto session = test::open_session(*engine);
    const auto golden = read_trace(std::string(test::golden_folder) + "/dsv41-tiny-04.json");
    REQUIRE(golden);
    std::vector<int32_t> seen;
    RecordOptions options;
    options.prompt_steps = true;
    options.on_token = [&](int32_t token) {
        seen.push_back(token);
        return true;
    };
    const auto recorded = record_trace(*engine, *session, golden->prompt, options);
    REQUIRE_MESSAGE(recorded, (recorded ? "" : recorded.error().message));
    CHECK(recorded->tokens == golden->tokens);
    CHECK(seen == recorded->tokens);
    CHECK(recorded->model == "dsv41-tiny");

    TempFolder folder;
    REQUIRE(write_trace(folder / "own.json", *recorded));
    auto trace = read_trace(folder / "own.json");
    REQUIRE_MESSAGE(trace, (trace ? "" : trace.error().message));
    CHECK(trace->exact);
    auto report = compare(*engine, *session, *trace);
    REQUIRE(report);
    INFO(report->failure);
    CHECK(report->pass);
    CHECK(report->steps == trace->prompt.size() + trace->tokens.size());
    CHECK(report->rel_max == 0);

    trace->steps[3].logits_checksum ^= 1;
    report = compare(*engine, *session, *trace);
    REQUIRE(report);
    CHECK(!report->pass);
    CHECK(report->failure.find("position 13") != std::string::npos);
    trace->steps[3].logits_checksum ^= 1;
    trace->steps[2].logits[5] = std::nextafter(trace->steps[2].logits[5], 100.0f);
    report = compare(*engine, *session, *trace);
    REQUIRE(report);
    CHECK(!report->pass);
}

TEST_CASE("differences beyond the tolerance fail, ties are only reported") {
    auto engine = test::load_engine(test::model_options("dsv41-tiny"));
    auto session = test::open_session(*engine);
    auto trace = read_trace(std::string(test::golden_folder) + "/dsv41-tiny-04.json");
    REQUIRE(trace);
    const Trace original = *trace;

    std::swap(trace->steps[4].ids[0], trace->steps[4].ids[1]);
    auto report = compare(*engine, *session, *trace);
    REQUIRE(report);
    CHECK(!report->pass);
    REQUIRE(report->flips.size() == 1);
    CHECK(report->flips[0].position == original.steps[4].position);
    CHECK(report->flips[0].got == original.steps[4].ids[0]);
    CHECK(!report->flips[0].tie);

    trace->tie_margin = 1e9;
    trace->rel_median = trace->rel_max = 1e9;
    report = compare(*engine, *session, *trace);
    REQUIRE(report);
    CHECK(report->pass);
    CHECK(report->flips[0].tie);

    *trace = original;
    for (float& logit : trace->steps[6].logits) logit *= 3;
    report = compare(*engine, *session, *trace);
    REQUIRE(report);
    CHECK(!report->pass);
    CHECK(report->rel_max_position == original.steps[6].position);
}

TEST_CASE("a trace of other index keys or another model is a usage error") {
    auto engine = test::load_engine(test::model_options("dsv41-rand-a"));
    auto session = test::open_session(*engine);
    auto trace = read_trace(std::string(test::golden_folder) + "/dsv41-tiny-04.json");
    REQUIRE(trace);
    auto report = compare(*engine, *session, *trace);
    REQUIRE(!report);
    CHECK(report.error().code == Code::usage);
    CHECK(report.error().message.find("vocabulary of 700") != std::string::npos);

    trace = read_trace(std::string(test::golden_folder) + "/dsv41-rand-a-03-refkeys.json");
    REQUIRE(trace);
    report = compare(*engine, *session, *trace);
    REQUIRE(!report);
    CHECK(report.error().message.find("--index-keys reference") != std::string::npos);
}

}  // namespace sluice
