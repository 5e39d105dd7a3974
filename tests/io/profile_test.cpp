// The profile: leaves tile the time, memory is bounded, the file is complete or missing.
#include "io/profile.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "io/json.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

void pass_time() {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

struct Event {
    std::string name, category;
    int64_t thread;
    double begin, length;
};

std::vector<Event> events_of(const Json& trace) {
    std::vector<Event> out;
    for (size_t i = 0; i < trace["traceEvents"].size(); ++i) {
        const Json event = trace["traceEvents"].at(i);
        if (event["ph"].string().value() != "X") continue;
        out.push_back({event["name"].string().value(), event["cat"].string().value(),
                       event["tid"].integer().value(), event["ts"].number().value(),
                       event["dur"].number().value()});
    }
    return out;
}

Json parsed(const std::filesystem::path& path) {
    auto trace = Json::parse(read_file(path));
    REQUIRE_MESSAGE(trace, (trace ? "" : trace.error().message));
    return *trace;
}

}  // namespace

TEST_CASE("leaves and groups: every moment under a leaf is in exactly one span") {
    TempFolder folder;
    REQUIRE(spans::start(folder / "trace.json"));
    {
        const spans::Group answer("answer");
        const spans::Leaf outer("outer");
        pass_time();
        {
            const spans::Group layer("layer", 3);
            pass_time();
            const spans::Leaf inner("inner", 3, 7);
            pass_time();
        }
        pass_time();
    }
    REQUIRE(spans::finish());
    double all = 0, leaves = 0, inner = 0, end = 0;
    size_t outer_pieces = 0;
    for (const Event& event : events_of(parsed(folder / "trace.json"))) {
        if (event.name == "answer") all = event.length;
        if (event.category != "leaf") continue;
        CHECK(event.begin >= end - 0.002);  // microseconds with three digits
        end = event.begin + event.length;
        leaves += event.length;
        if (event.name == "inner") inner += event.length;
        outer_pieces += event.name == "outer";
    }
    CHECK(outer_pieces >= 3);
    CHECK(inner >= 1900);
    CHECK(leaves >= 0.97 * all);
    CHECK(leaves <= all + 0.1);
}

TEST_CASE("spans that overlap on a track lie in lanes of their own") {
    TempFolder folder;
    REQUIRE(spans::start(folder / "trace.json"));
    const int64_t at = spans::now();
    for (int i = 0; i < 3; ++i) {
        spans::add({"read", at + i * 100000, at + 250000 + i * 100000, 4096, 0, 1, i,
                    spans::Track::drive, false});
    }
    spans::add({"read", at + 400000, at + 500000, 4096, 1, 1, 9, spans::Track::drive, false});
    std::thread other([&] {
        spans::add({"expert", at, at + 1000, 0, 0, 1, 2, spans::Track::cpu_experts, false});
    });
    other.join();
    REQUIRE(spans::finish());
    const Json trace = parsed(folder / "trace.json");
    std::vector<Event> reads;
    for (const Event& event : events_of(trace)) {
        if (event.name == "read") reads.push_back(event);
    }
    REQUIRE(reads.size() == 4);
    for (size_t i = 0; i < reads.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
            const bool apart = reads[j].begin + reads[j].length <= reads[i].begin + 0.002;
            CHECK((apart || reads[i].thread != reads[j].thread));
        }
    }
    CHECK(reads[3].thread / 1000 != reads[0].thread / 1000);  // another drive
}

TEST_CASE("memory is bounded: spans that do not fit are counted") {
    TempFolder folder;
    REQUIRE(spans::start(folder / "trace.json", 10));
    for (int i = 0; i < 25; ++i) {
        spans::add(
            {"read", spans::now(), spans::now() + 1, 0, 0, -1, -1, spans::Track::drive, false});
    }
    REQUIRE(spans::finish());
    const Json trace = parsed(folder / "trace.json");
    CHECK(events_of(trace).size() == 10);
    CHECK(trace["otherData"]["dropped"].integer().value() == 15);
}

TEST_CASE("off: nothing is recorded or written") {
    TempFolder folder;
    CHECK_FALSE(spans::on());
    CHECK(spans::now() == 0);
    {
        const spans::Group group("answer");
        const spans::Leaf leaf("text");
        REQUIRE(spans::start(folder / "trace.json"));  // spans begun earlier are not in the file
    }
    REQUIRE(spans::finish());
    CHECK(events_of(parsed(folder / "trace.json")).empty());
    CHECK(spans::finish());
}

TEST_CASE("a path that no profile can be written to is refused before the run") {
    TempFolder folder;
    const auto refused = [](const std::filesystem::path& path) {
        auto begun = spans::start(path);
        REQUIRE_FALSE(begun);
        CHECK(begun.error().code == Code::usage);
        CHECK(begun.error().message.starts_with("--profile "));
        CHECK_FALSE(spans::on());
    };
    refused(folder.path());
    refused(folder / "missing/trace.json");
    refused("/dev/null");
    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    refused(folder / "pipe");
    refused("");

    std::filesystem::create_directory(folder / "gone");
    REQUIRE(spans::start(folder / "gone/trace.json"));
    std::filesystem::remove(folder / "gone");
    auto written = spans::finish();
    REQUIRE_FALSE(written);
    CHECK(written.error().code == Code::io);
}

TEST_CASE("finish() on another thread while spans are added: complete spans, valid JSON") {
    TempFolder folder;
    for (int round = 0; round < 20; ++round) {
        REQUIRE(spans::start(folder / "trace.json"));
        std::atomic<bool> begun = false;
        std::thread writer([&] {
            while (spans::on()) {
                const spans::Leaf leaf("work", 1, 2);
                spans::add(
                    {"read", spans::now(), spans::now(), 3, 4, 1, 2, spans::Track::drive, false});
                begun = true;
            }
        });
        while (!begun) std::this_thread::yield();
        std::thread second([] { CHECK(spans::finish()); });
        CHECK(spans::finish());
        second.join();
        writer.join();
        for (const Event& event : events_of(parsed(folder / "trace.json"))) {
            REQUIRE((event.name == "work" || event.name == "read"));
        }
    }
}
