#include "io/ring/ring_paced.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "io/clock.h"
#include "io/memory.h"
#include "tests/support/sim_clock.h"
#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

constexpr uint32_t mib = 1u << 20;

struct Times : ReadClient {
    const SimClock* clock = nullptr;
    std::map<uint64_t, double> at;  // by tag
    std::map<uint64_t, std::string> errors;
    void read_done(uint64_t tag, std::optional<Error> error) override {
        if (clock) at[tag] = clock->seconds();
        if (error) errors[tag] = error->message;
    }
};

// Two drives with one file each, and a ring in simulated time.
struct Scene {
    TempFolder folder = TempFolder::on_drive();
    std::string content = random_bytes(8 * mib, 1);
    std::vector<File> files;
    PageBuffer memory = std::move(*PageBuffer::create(8 * mib, "a test"));
    SimClock* clock = nullptr;
    PacedEngine* engine = nullptr;
    std::unique_ptr<ReadRing> ring;
    Times times;

    explicit Scene(std::vector<DrivePace> paces, SimFaults faults = {}) {
        for (uint32_t drive = 0; drive < 2; ++drive) {
            auto file = File::open(folder.write("shard" + std::to_string(drive), content));
            REQUIRE(file);
            files.push_back(std::move(*file));
            files.back().set_drive(drive);
        }
        auto simulated = std::make_unique<SimClock>();
        clock = simulated.get();
        times.clock = clock;
        auto made = std::make_unique<PacedEngine>(std::make_unique<SimEngine>(7, faults),
                                                  std::move(paces), 64, std::move(simulated));
        engine = made.get();
        ring = std::make_unique<ReadRing>(std::move(made), 64);
    }
    void queue(uint64_t tag, uint32_t drive, uint32_t bytes = mib) {
        ring->queue({&files[drive], (tag % 8) * mib, memory.data() + (tag % 8) * mib, bytes, bytes,
                     &times, tag});
    }
    void finish() {
        while (ring->in_flight() > 0) REQUIRE(ring->reap(true));
    }
};

}  // namespace

TEST_CASE("paced: one pipe of the given rate, with latencies that overlap") {
    Scene s({{mib * 100.0, 0.002}});
    for (uint64_t tag = 0; tag < 8; ++tag) s.queue(tag, 0);
    CHECK(*s.ring->reap(false) == 0);  // nothing arrives early
    s.finish();
    for (uint64_t tag = 0; tag < 8; ++tag) {
        CAPTURE(tag);
        CHECK(s.times.at[tag] == doctest::Approx(0.002 + 0.01 * static_cast<double>(tag + 1)));
    }
    CHECK(std::memcmp(s.memory.data(), s.content.data(), s.content.size()) == 0);
    // The ring's own times are the engine's: busy from the first read to the last.
    CHECK(s.ring->stats().busy_s == doctest::Approx(0.082));
    CHECK(s.ring->stats().wait_s == doctest::Approx(0.082));
}

TEST_CASE("paced: a drive does not save up idle time") {
    Scene s({{mib * 100.0, 0}});
    s.queue(0, 0);
    s.finish();
    s.clock->pass(1);
    s.queue(1, 0);
    s.finish();
    CHECK(s.times.at[1] == doctest::Approx(1.02));
}

TEST_CASE("paced: a rate for each drive, and one rate for all") {
    SUBCASE("own") {
        Scene s({{mib * 100.0, 0}, {mib * 50.0, 0.001}});
        for (uint64_t tag = 0; tag < 8; ++tag) s.queue(tag, tag % 2);
        s.finish();
        CHECK(s.times.at[6] == doctest::Approx(0.04));
        CHECK(s.times.at[7] == doctest::Approx(0.081));
    }
    SUBCASE("one") {
        Scene s({{mib * 100.0, 0}});
        for (uint64_t tag = 0; tag < 8; ++tag) s.queue(tag, tag % 2);
        s.finish();
        CHECK(s.times.at[6] == doctest::Approx(0.04));
        CHECK(s.times.at[7] == doctest::Approx(0.04));
    }
    SUBCASE("slower from now on") {
        Scene s({{mib * 100.0, 0}});
        s.engine->set_pace(1, {mib * 10.0, 0});
        for (uint64_t tag = 0; tag < 2; ++tag) s.queue(tag, static_cast<uint32_t>(tag));
        s.finish();
        CHECK(s.times.at[0] == doctest::Approx(0.01));
        CHECK(s.times.at[1] == doctest::Approx(0.1));
    }
}

TEST_CASE("paced: errors of the inner engine are passed on") {
    SUBCASE("bytes are right whatever the inner engine does") {
        Scene s({{mib * 100.0, 0.0001}},
                {.short_read = 0.3, .again = 0.2, .reorder = 0.5, .late = 0.5});
        for (uint64_t tag = 0; tag < 8; ++tag) s.queue(tag, tag % 2);
        s.finish();
        CHECK(s.times.errors.empty());
        CHECK(std::memcmp(s.memory.data(), s.content.data(), s.content.size()) == 0);
    }
    SUBCASE("a bad spot") {
        Scene s({{mib * 100.0, 0}}, {.bad_begin = 3 * mib, .bad_end = 3 * mib + 1});
        for (uint64_t tag = 0; tag < 8; ++tag) s.queue(tag, 0);
        s.finish();
        REQUIRE(s.times.errors.size() == 1);
        CHECK(s.times.errors.count(3) == 1);
    }
}

TEST_CASE("paced: with the real clock, never faster than the rate") {
    TempFolder folder = TempFolder::on_drive();
    const std::string content = random_bytes(8 * mib, 2);
    auto file = File::open(folder.write("shard", content));
    REQUIRE(file);
    auto memory = PageBuffer::create(8 * mib, "a test");
    REQUIRE(memory);
    auto choice =
        make_ring_engine({.engine = IoEngine::paced, .depth = 16, .paces = {{100e6, 0.001}}});
    REQUIRE(choice);
    CHECK(std::string(choice->engine->name()) == "threads, paced to 100 MB/s, 1000 us");
    ReadRing ring(std::move(choice->engine), 16);
    Times times;
    const auto start = Clock::now();
    for (uint64_t tag = 0; tag < 8; ++tag) {
        ring.queue({&*file, tag * mib, memory->data() + tag * mib, mib, mib, &times, tag});
    }
    while (ring.in_flight() > 0) REQUIRE(ring.reap(true));
    const double passed = seconds_since(start);
    CHECK(passed >= 0.001 + 8.0 * mib / 100e6);
    CHECK(std::memcmp(memory->data(), content.data(), content.size()) == 0);
}

TEST_CASE("paced: parsing rates and latencies") {
    CHECK(paces_text(*parse_paces("8.8GB,80us")) == "8.8 GB/s, 80 us");
    CHECK(paces_text(*parse_paces("8.8GB+512MB,1ms")) == "8.8 GB/s + 512 MB/s, 1000 us");
    for (const char* bad : {"", "x", "1", "8GB,", "8GB,us", "8GB,nanus", "8GB,1e999s", "8GB,80us,1",
                            "+8GB", "8GB++8GB", "9999999TB"}) {
        CAPTURE(bad);
        const auto paces = parse_paces(bad);
        REQUIRE_FALSE(paces);
        CHECK(paces.error().code == Code::usage);
    }
    CHECK_FALSE(make_ring_engine({.engine = IoEngine::paced}));
}
