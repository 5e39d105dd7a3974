// tests/golden/TRACES.md: its examples are traces, and it names every field that a trace has.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/trace/trace.h"
#include "io/json.h"
#include "tests/support/models.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

std::string document() {
    return read_file(std::string(test::golden_folder) + "/TRACES.md");
}

// The blocks between ```json and ```, in order.
std::vector<std::string> examples() {
    const std::string text = document(), begin = "```json\n", end = "```";
    std::vector<std::string> out;
    for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
        at += begin.size();
        const size_t stop = text.find(end, at);
        REQUIRE(stop != std::string::npos);
        out.push_back(text.substr(at, stop - at));
        at = stop + end.size();
    }
    return out;
}

Result<Trace> read(const std::string& text) {
    const TempFolder folder;
    return read_trace(folder.write("example.json", text));
}

void check_fields(const Json& object, const std::string& text) {
    for (const std::string& key : object.keys()) {
        CAPTURE(key);
        CHECK(text.find("`" + key + "`") != std::string::npos);
    }
}

}  // namespace

TEST_CASE("the examples of TRACES.md are read, one of each format") {
    const auto texts = examples();
    REQUIRE(texts.size() == 2);
    for (size_t i = 0; i < texts.size(); ++i) {
        const auto trace = read(texts[i]);
        REQUIRE_MESSAGE(trace, (trace ? "" : trace.error().message));
        CHECK(trace->exact == (i == 1));
        CHECK(trace->model == "dsv41-tiny");
        CHECK(trace->prompt.size() == 11);
        CHECK(trace->steps.size() == 2);
    }
}

TEST_CASE("the reference trace in TRACES.md is one that this engine repeats") {
    auto engine = test::load_engine(test::model_options("dsv41-tiny"));
    auto session = test::open_session(*engine);
    const auto trace = read(examples().at(0));
    REQUIRE(trace);
    const auto report = compare(*engine, *session, *trace);
    REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
    INFO(report->failure);
    CHECK(report->pass);
}

TEST_CASE("TRACES.md names every field of the golden traces and of our own") {
    const std::string text = document();
    const auto files = find_traces({test::golden_folder});
    REQUIRE(files);
    std::vector<std::string> sources = examples();
    for (const auto& file : *files) sources.push_back(read_file(file));
    for (const std::string& source : sources) {
        const auto root = Json::parse(source);
        REQUIRE(root);
        check_fields(*root, text);
        check_fields((*root)["tolerance"], text);
        for (const char* list : {"steps", "prompt_steps", "messages", "drafts"}) {
            if ((*root)[list].size() > 0) check_fields((*root)[list].at(0), text);
        }
    }
}

}  // namespace sluice
