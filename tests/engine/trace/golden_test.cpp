// Every golden trace: tokens and logits within each trace's tolerance, and the logits bit-equal
// whatever the cache size, I/O engine, chunk and thread count. SLUICE_TEST_FULL=1 runs the full
// product of settings instead of a covering set.
#include <cstdlib>
#include <map>

#include "io/checksum.h"
#include "io/text.h"
#include "tests/support/models.h"

namespace sluice::test {
namespace {

enum class Cache { off, working_set, half, all };

struct Setting {
    Cache cache;
    IoEngine io;
    int32_t chunk;  // 0: the whole prompt
    int threads;
};

std::vector<Setting> settings() {
    if (!std::getenv("SLUICE_TEST_FULL")) {
        return {{Cache::all, IoEngine::uring, 0, 2},
                {Cache::off, IoEngine::threads, 1, 1},
                {Cache::working_set, IoEngine::uring, 7, 2},
                {Cache::half, IoEngine::threads, 64, 2},
                {Cache::off, IoEngine::uring, 64, 1},
                {Cache::working_set, IoEngine::threads, 0, 1}};
    }
    std::vector<Setting> all;
    for (Cache cache : {Cache::off, Cache::working_set, Cache::half, Cache::all}) {
        for (IoEngine io : {IoEngine::uring, IoEngine::threads}) {
            for (int32_t chunk : {1, 7, 64, 0}) {
                for (int threads : {1, 2}) all.push_back({cache, io, chunk, threads});
            }
        }
    }
    return all;
}

struct Geometry {
    int32_t layers, experts, top_k;
};
const std::map<std::string, Geometry> models = {
    {"dsv41-tiny", {8, 64, 6}}, {"dsv41-rand-a", {6, 24, 3}}, {"dsv4-rand-a", {6, 12, 3}}};

EngineOptions apply(const std::string& model, const Setting& setting) {
    EngineOptions options = model_options(model);
    const Geometry& g = models.at(model);
    const uint32_t all = static_cast<uint32_t>(g.layers * g.experts);
    const uint32_t least = static_cast<uint32_t>(g.layers * g.top_k);
    options.cache_slots = setting.cache == Cache::off           ? 0
                          : setting.cache == Cache::working_set ? least
                          : setting.cache == Cache::half        ? std::max(all / 2, least)
                                                                : all;
    options.io = setting.io;
    options.chunk = setting.chunk == 0 ? options.context : setting.chunk;
    options.threads = setting.threads;
    return options;
}

// A checksum over the logits of every step of a teacher-forced run. The first `kept` tokens of the
// prompt are in the session already.
uint64_t run_checksum(Session& session, const Trace& trace, size_t kept = 0) {
    Checksum sum;
    if (kept == 0) session.reset();
    auto logits = session.feed(std::span(trace.prompt).subspan(kept));
    for (size_t i = 0; i < trace.tokens.size(); ++i) {
        REQUIRE_MESSAGE(logits, (logits ? "" : logits.error().message));
        sum.add(logits->data(), logits->size_bytes());
        logits = session.feed({&trace.tokens[i], 1});
    }
    return sum.value();
}

void check_model(const std::string& model) {
    std::map<std::string, uint64_t> first;
    for (const Setting& setting : settings()) {
        auto engine = load_engine(apply(model, setting));
        auto session = open_session(*engine);
        for (const Trace& trace : golden_traces(model, IndexKeys::own)) {
            CAPTURE(trace.name);
            CAPTURE(setting.chunk);
            CAPTURE(setting.threads);
            if (!first.contains(trace.name)) {
                auto report = compare(*engine, *session, trace);
                REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
                INFO(report->failure);
                MESSAGE(trace.name, ": ", report->steps, " steps, rel median ", report->rel_median,
                        ", max ", report->rel_max, ", ", report->flips.size(), " flips");
                CHECK(report->pass);
            }
            const uint64_t sum = run_checksum(*session, trace);
            auto [place, fresh] = first.try_emplace(trace.name, sum);
            CHECK(place->second == sum);
        }
    }
}

}  // namespace

TEST_CASE("golden traces of dsv41-tiny, equal to the bit in every setting") {
    check_model("dsv41-tiny");
}

TEST_CASE("golden traces of dsv41-rand-a, equal to the bit in every setting") {
    check_model("dsv41-rand-a");
}

TEST_CASE("golden traces of dsv4-rand-a, equal to the bit in every setting") {
    check_model("dsv4-rand-a");
}

TEST_CASE("a trace that continues another one is the same after that one's state") {
    const auto read = [](const char* name) {
        auto trace = read_trace(std::string(test::golden_folder) + "/" + name);
        REQUIRE(trace);
        return std::move(*trace);
    };
    const Trace first = read("dsv4-rand-a-02.json"), next = read("dsv4-rand-a-04.json");
    for (const int32_t chunk : {0, 7}) {
        CAPTURE(chunk);
        auto engine = load_engine(apply("dsv4-rand-a", {Cache::half, IoEngine::uring, chunk, 1}));
        auto session = open_session(*engine);
        const uint64_t whole = run_checksum(*session, next);
        run_checksum(*session, first);
        const auto kept = session->rewind_to_prefix(next.prompt);
        REQUIRE(kept);
        CHECK(*kept == static_cast<int32_t>(first.prompt.size() + first.tokens.size()));
        CHECK(run_checksum(*session, next, static_cast<size_t>(*kept)) == whole);
    }
}

TEST_CASE("golden traces with the reference's index keys") {
    for (const char* model : {"dsv41-tiny", "dsv41-rand-a"}) {
        EngineOptions options = model_options(model);
        options.index_keys = IndexKeys::reference;
        auto engine = load_engine(options);
        auto session = open_session(*engine);
        const auto traces = golden_traces(model, IndexKeys::reference);
        REQUIRE(traces.size() == 1);
        auto report = compare(*engine, *session, traces[0]);
        REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
        INFO(report->failure);
        MESSAGE(traces[0].name, ": rel median ", report->rel_median, ", max ", report->rel_max,
                ", ", report->flips.size(), " flips");
        CHECK(report->pass);
    }
}

}  // namespace sluice::test
