// Prompts that read before the router chose: the same experts in the same cache slots, sooner.
#include <doctest/doctest.h>

#include "tests/cache/rig.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<int32_t> first(int32_t count) {
    std::vector<int32_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

void pump_dry(Rig& rig) {
    for (int i = 0; i < 200; ++i) REQUIRE(rig.cache->pump());
}

std::vector<bool> residents(const Rig& rig) {
    std::vector<bool> all;
    for (int32_t i = 0; i < layers * experts; ++i) {
        all.push_back(rig.cache->resident({i / experts, i % experts}));
    }
    return all;
}

}  // namespace

TEST_CASE("what is read ahead is ready when asked for, and read once") {
    for (uint32_t slots : {0u, 100u}) {
        CAPTURE(slots);
        Rig rig(1, {}, {.cache_slots = slots, .transit_slots = 8, .poison = true});
        rig.cache->read_ahead(0, first(experts));
        pump_dry(rig);
        // The transit slots, and the cache slots that hold nothing yet.
        const uint64_t room = std::min<uint64_t>(experts, 8 + slots);
        const CacheStats& stats = rig.cache->stats();
        CHECK(stats.ahead_started == room);
        for (int32_t layer = 0; layer < 3; ++layer) {
            rig.run(layer, first(experts), DemandKind::prompt);
            rig.cache->read_ahead(layer + 1, first(experts));
            pump_dry(rig);
        }
        CHECK(stats.prompt_hits == 0);  // as without read-ahead
        CHECK(stats.ahead_dropped == 0);
        const uint64_t bytes = rig.model.map->expert_bytes({0, 0});
        const uint64_t ahead = std::min<uint64_t>(experts, slots > 3u * experts ? 0 : 8);
        CHECK(stats.bytes_demand == (3u * experts + ahead) * bytes);
    }
}

TEST_CASE("what the router does not choose is dropped and counted") {
    Rig rig(2, {}, {.cache_slots = 0, .transit_slots = 8, .poison = true});
    rig.cache->read_ahead(2, first(8));
    pump_dry(rig);
    rig.run(2, {1, 3, 5, 20, 21, 22, 23, 24, 25, 26}, DemandKind::prompt);
    const CacheStats& stats = rig.cache->stats();
    CHECK(stats.ahead_started == 8);
    CHECK(stats.ahead_dropped == 5);
    for (int32_t expert = 0; expert < experts; ++expert) {
        CHECK_FALSE(rig.cache->resident({2, expert}));
    }
    // Another layer than announced, a decode step, a prompt given up: all dropped, no slot lost.
    rig.cache->read_ahead(3, first(8));
    pump_dry(rig);
    rig.run(4, {1, 2}, DemandKind::decode);
    CHECK(stats.ahead_dropped == 13);
    rig.cache->read_ahead(5, first(8));
    rig.cache->abandon();
    pump_dry(rig);
    rig.run(6, first(experts), DemandKind::prompt, 8);
    CHECK(stats.ahead_dropped == stats.ahead_started - 3);
}

TEST_CASE("the drive continues from one layer to the next without a pause") {
    auto engine = std::make_unique<SimEngine>(1);
    const SimEngine& drive = *engine;
    Rig rig(std::move(engine), {.cache_slots = 0, .transit_slots = 12});
    for (int32_t layer = 0; layer < 4; ++layer) {
        REQUIRE(rig.cache->demand(layer, first(experts), DemandKind::prompt));
        rig.cache->read_ahead(layer + 1, first(experts));
        for (int32_t i = 0; i < experts; ++i) {
            auto handle = rig.cache->next();
            REQUIRE(handle);
            CHECK(rig.exact(*handle));
            rig.cache->release(*handle);
            // While one expert is computed, and when the layer is done, others are being read.
            CHECK(rig.ring.in_flight() > 0);
        }
    }
    // In file order, across layers too.
    uint64_t last = 0;
    int fd = -1;
    size_t backwards = 0;
    for (const auto& read : drive.submitted()) {
        if (read.fd == fd && read.offset < last) ++backwards;
        fd = read.fd;
        last = read.offset;
    }
    CHECK(backwards < drive.submitted().size() / 2);
}

TEST_CASE("read-ahead does not change what stays in the cache, whatever the drive does") {
    const SimFaults rough = {
        .short_read = 0.1, .again = 0.1, .eio = 0, .reorder = 0.5, .late = 0.5};
    for (uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        std::vector<bool> left[2];
        CacheStats stats[2];
        for (int ahead : {0, 1}) {
            Rig rig(seed + 1000 * ahead, rough,
                    {.cache_slots = static_cast<uint32_t>(seed * 13 % 300),
                     .transit_slots = static_cast<uint32_t>(2 + seed % 9),
                     .seed = seed,
                     .poison = true});
            Routes routes(seed);
            std::mt19937_64 random(seed);
            for (int pass = 0; pass < 8; ++pass) {
                const bool prompt = random() % 2 == 0;
                for (int32_t layer = 0; layer < layers; ++layer) {
                    const auto count = prompt ? static_cast<int32_t>(20 + random() % 40) : top_k;
                    const auto wanted = routes.pick(layer, count);
                    const bool now = random() % 4 != 0;
                    const auto guess = routes.pick(layer, 50);
                    if (ahead && now && prompt) rig.cache->read_ahead(layer, guess);
                    for (uint64_t pumps = random() % 9; pumps > 0; --pumps) {
                        REQUIRE(rig.cache->pump());
                    }
                    rig.run(layer, wanted, prompt ? DemandKind::prompt : DemandKind::decode,
                            1 + seed % 2);
                }
                rig.cache->token_passed();
            }
            rig.run(0, {}, DemandKind::decode);
            pump_dry(rig);
            left[ahead] = residents(rig);
            stats[ahead] = rig.cache->stats();
        }
        CHECK(left[0] == left[1]);
        CHECK(stats[0].hits == stats[1].hits);
        CHECK(stats[0].misses == stats[1].misses);
        CHECK(stats[0].evictions == stats[1].evictions);
        CHECK(stats[0].prompt_hits == stats[1].prompt_hits);
        CHECK(stats[1].ahead_started > 0);
    }
}

TEST_CASE("a failed read-ahead is read again, and reported only if it is needed") {
    for (uint64_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        SimFaults faults;
        faults.eio = 0.05;
        Rig rig(seed, faults, {.cache_slots = 0, .transit_slots = 6, .poison = true});
        int failures = 0;
        for (int step = 0; step < 40; ++step) {
            const int32_t layer = step % layers;
            rig.cache->read_ahead(layer, first(6));
            pump_dry(rig);
            const std::vector<int32_t> wanted = {0, 2, 4, 9};
            REQUIRE(rig.cache->demand(layer, wanted, DemandKind::prompt));
            for (size_t i = 0; i < wanted.size(); ++i) {
                auto handle = rig.cache->next();
                if (!handle) {
                    CHECK(handle.error().code == Code::io);
                    ++failures;
                    break;
                }
                CHECK(rig.exact(*handle));
                rig.cache->release(*handle);
            }
            rig.cache->abandon();
        }
        CHECK(failures < 40);
    }
}

namespace {

struct TwoDrives {
    SimEngine* engine;
    Rig rig;

    explicit TwoDrives(const ExpertCacheOptions& options)
        : TwoDrives(std::make_unique<SimEngine>(7), options) {}
    TwoDrives(std::unique_ptr<SimEngine> made, const ExpertCacheOptions& options)
        : engine(made.get()), rig(std::move(made), options, 32, Model::spread()) {}

    uint32_t in_flight(int32_t layer) const {
        return rig.ring.drive(rig.model.map->file({layer, 0}).drive()).in_flight();
    }
};

}  // namespace

TEST_CASE("with layers on two drives, the next layer is read while this one is") {
    REQUIRE_FALSE(Model::spread().map->share_drive({0, 0}, {1, 0}));
    REQUIRE(Model::spread().map->share_drive({0, 0}, {0, 9}));
    TwoDrives two({.cache_slots = 0, .transit_slots = 24, .poison = true});
    Rig& rig = two.rig;
    for (int32_t layer = 0; layer < 4; ++layer) {
        REQUIRE(rig.cache->demand(layer, first(experts), DemandKind::prompt));
        rig.cache->read_ahead(layer + 1, first(experts));
        int both = 0;
        for (int32_t i = 0; i < experts; ++i) {
            auto handle = rig.cache->next();
            REQUIRE(handle);
            CHECK(rig.exact(*handle));
            rig.cache->release(*handle);
            both += two.in_flight(layer) > 0 && two.in_flight(layer + 1) > 0;
        }
        if (layer == 0) CHECK(both > 0);
    }
    const CacheStats& stats = rig.cache->stats();
    CHECK(stats.ahead_dropped == 0);
    // At least half of the transit slots hold the announced layer while the one before was
    // still being read.
    CHECK(stats.ahead_started >= 4 * 12);
}

TEST_CASE("a prefetch starts beside a demand on another drive, and waits for one on its own") {
    for (bool spread : {true, false}) {
        CAPTURE(spread);
        TwoDrives two({.cache_slots = 0, .transit_slots = 24, .poison = true});
        Rig& rig = two.rig;
        const int32_t next = spread ? 1 : 2;
        REQUIRE(rig.cache->demand(0, {{1, 2, 3}}, DemandKind::decode));
        rig.cache->prefetch(next, std::vector<int32_t>{10, 11}, 2);
        CHECK(rig.cache->stats().prefetch_started == (spread ? 2 : 0));
        for (int i = 0; i < 3; ++i) {
            auto handle = rig.cache->next();
            REQUIRE(handle);
            rig.cache->release(*handle);
        }
        pump_dry(rig);
        CHECK(rig.cache->stats().prefetch_started == 2);
        rig.run(next, {10, 11, 12}, DemandKind::decode);
        CHECK(rig.cache->stats().prefetch_used == 2);
        CHECK(rig.cache->stats().bytes_demand + rig.cache->stats().bytes_prefetch ==
              6 * rig.model.map->expert_bytes({0, 0}));
    }
}
