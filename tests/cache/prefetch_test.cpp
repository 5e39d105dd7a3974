#include <doctest/doctest.h>

#include <random>

#include "cache/expert_cache.h"
#include "cache/predictor.h"
#include "cache/prefetch_governor.h"
#include "tests/cache/rig.h"

using namespace sluice;
using namespace sluice::test;

namespace {

void pump_dry(Rig& rig) {
    for (int i = 0; i < 50; ++i) REQUIRE(rig.cache->pump());
}

}  // namespace

TEST_CASE("a right guess is a hit, a wrong one is dropped after its layer") {
    for (uint32_t slots : {0u, 48u}) {
        CAPTURE(slots);
        Rig rig(1, {}, {.cache_slots = slots, .transit_slots = 8, .poison = true});
        rig.run(0, {1, 2, 3}, DemandKind::decode);
        rig.cache->prefetch(1, std::vector<int32_t>{10, 11, 12, 13}, 2);
        pump_dry(rig);
        const CacheStats& stats = rig.cache->stats();
        CHECK(stats.prefetch_started == 2);
        CHECK(rig.cache->resident({1, 10}));
        CHECK(rig.cache->resident({1, 11}));
        CHECK_FALSE(rig.cache->resident({1, 12}));
        const auto order = rig.run(1, {20, 10, 21}, DemandKind::decode);
        CHECK(order.front() == 10);
        CHECK(stats.hits == 1);
        CHECK(stats.misses == 5);
        CHECK(stats.prefetch_used == 1);
        CHECK(stats.prefetch_wasted == 1);
        CHECK_FALSE(rig.cache->resident({1, 11}));
        CHECK(rig.cache->resident({1, 10}) == (slots > 0));
        CHECK(stats.guesses == 4);
        CHECK(stats.guesses_right == 1);
        CHECK(stats.bytes_prefetch == 2 * rig.model.map->expert_bytes({1, 10}));
    }
}

TEST_CASE("guesses with count 0 are judged but not read") {
    Rig rig(1, {}, {.cache_slots = 16, .transit_slots = 8});
    rig.run(0, {1}, DemandKind::decode);
    rig.cache->prefetch(1, std::vector<int32_t>{3, 4}, 0);
    rig.run(1, {4, 5}, DemandKind::decode);
    CHECK(rig.cache->stats().prefetch_started == 0);
    CHECK(rig.cache->stats().guesses == 2);
    CHECK(rig.cache->stats().guesses_right == 1);
}

TEST_CASE("a prefetch in flight when its expert is asked for is late and not read twice") {
    Rig rig(1, {.late = 0.999999}, {.cache_slots = 16, .transit_slots = 8});
    rig.run(0, {1}, DemandKind::decode);
    rig.cache->prefetch(1, std::vector<int32_t>{3}, 1);
    rig.run(1, {3, 4}, DemandKind::decode);
    const CacheStats& stats = rig.cache->stats();
    CHECK(stats.late_prefetches == 1);
    CHECK(stats.prefetch_used == 1);
    CHECK(stats.hits == 0);
    CHECK(stats.misses == 3);
    CHECK(stats.bytes_demand == 3 * rig.model.map->expert_bytes({1, 3}));
    CHECK(stats.bytes_prefetch == 0);  // promoted: a demand read by then
    CHECK(rig.cache->resident({1, 3}));
}

TEST_CASE("prefetch leaves the demand its transit slots and never reads a resident expert") {
    for (uint32_t transit_slots = 2; transit_slots <= 8; ++transit_slots) {
        CAPTURE(transit_slots);
        Rig rig(1, {}, {.cache_slots = 16, .transit_slots = transit_slots});
        rig.run(1, {1, 2}, DemandKind::decode);
        rig.run(0, {1}, DemandKind::decode);
        rig.cache->prefetch(1, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, -1, 64}, 100);
        rig.cache->prefetch(1, std::vector<int32_t>{3, 4, 5}, 100);
        pump_dry(rig);
        const uint32_t room = transit_slots > 4 ? transit_slots - 4 : 0;
        CHECK(rig.cache->stats().prefetch_started == room);
        CHECK(rig.cache->stats().evictions == 0);
        rig.run(1, {1, 2, 3, 4, 5, 6, 7, 8}, DemandKind::decode);
        CHECK(rig.cache->stats().prefetch_used == room);
    }
}

TEST_CASE("a demand takes the slots of prefetches when it needs them") {
    Rig rig(1, {}, {.cache_slots = 0, .transit_slots = 8, .poison = true});
    rig.run(0, {1}, DemandKind::decode);
    rig.cache->prefetch(2, std::vector<int32_t>{1, 2, 3, 4}, 4);
    pump_dry(rig);
    CHECK(rig.cache->stats().prefetch_started == 4);
    rig.run(1, {1, 2, 3, 4, 5, 6, 7, 8}, DemandKind::decode, 8);
    CHECK(rig.cache->stats().prefetch_wasted == 4);
}

TEST_CASE("prefetches whose layer never comes are dropped in time") {
    Rig rig(1, {}, {.cache_slots = 64, .transit_slots = 8});
    rig.run(0, {1}, DemandKind::decode);
    rig.cache->prefetch(5, std::vector<int32_t>{1, 2, 3}, 3);
    pump_dry(rig);
    for (int i = 0; i < layers; ++i) rig.run(i % 2, {1}, DemandKind::decode);
    CHECK(rig.cache->stats().prefetch_wasted == 3);
}

TEST_CASE("prefetching changes no eviction") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        std::vector<bool> resident[2];
        uint64_t evictions[2];
        for (uint32_t guessing : {0u, 1u}) {
            Rig rig(seed + guessing * 100, {.reorder = 0.5, .late = 0.5},
                    {.cache_slots = 60, .transit_slots = 9, .seed = seed});
            Routes routes(seed);
            Routes guesses(seed + 1);
            for (int token = 0; token < 30; ++token) {
                for (int32_t layer = 0; layer < layers; ++layer) {
                    rig.run(layer, routes.pick(layer, top_k), DemandKind::decode);
                    if (!guessing || layer + 1 == layers) continue;
                    rig.cache->prefetch(layer + 1, guesses.pick(layer + 1, 4), 3);
                    REQUIRE(rig.cache->pump());
                }
                rig.cache->token_passed();
            }
            if (guessing) CHECK(rig.cache->stats().prefetch_used > 0);
            evictions[guessing] = rig.cache->stats().evictions;
            rig.run(0, {}, DemandKind::decode);
            pump_dry(rig);
            for (int32_t i = 0; i < layers * experts; ++i) {
                resident[guessing].push_back(rig.cache->resident({i / experts, i % experts}));
            }
        }
        CHECK(evictions[0] == evictions[1]);
        CHECK(resident[0] == resident[1]);
    }
}

// ---- predictors and governor -------------------------------------------------------------------

TEST_CASE("predictors") {
    for (const std::string& name : predictor_names()) CHECK(make_predictor(name, 4));
    auto unknown = make_predictor("oracle", 4);
    REQUIRE_FALSE(unknown);
    CHECK(unknown.error().message.find("router, repeat, none") != std::string::npos);

    std::vector<int32_t> out = {99};
    const std::vector<int32_t> chosen = {1, 2, 3}, guesses = {7, 8, 9};
    auto router = *make_predictor("router", 4);
    router->predict({0, chosen, guesses}, 2, out);
    CHECK(out == std::vector<int32_t>{7, 8});
    router->predict({3, chosen, {}}, 2, out);
    CHECK(out.empty());

    auto repeat = *make_predictor("repeat", 2);
    repeat->predict({0, chosen, guesses}, 6, out);
    CHECK(out.empty());
    repeat->predict({1, guesses, {}}, 6, out);
    CHECK(out.empty());
    repeat->predict({0, chosen, {}}, 2, out);
    CHECK(out == std::vector<int32_t>{7, 8});

    auto none = *make_predictor("none", 2);
    none->predict({0, chosen, guesses}, 6, out);
    CHECK(out.empty());
}

namespace {

// A machine on which a token with g guesses takes time[g], plus or minus `noise`.
struct Machine {
    std::vector<double> time;
    double noise;
    double precision = 0.6;
    double waiting = 0.5;  // share of a token

    // The mean setting over the last half of `tokens`.
    double run(PrefetchGovernor& governor, int tokens, uint64_t seed) const {
        std::mt19937_64 random(seed);
        std::normal_distribution<> spread(0, noise);
        double sum = 0;
        for (int token = 0; token < tokens; ++token) {
            uint32_t most = 0;
            for (int32_t layer = 0; layer < 4; ++layer) {
                const uint32_t guesses = governor.guesses_for(layer);
                CHECK(guesses <= 4);
                most = std::max(most, guesses);
                uint32_t right = 0;
                for (uint32_t i = 0; i < 4; ++i) {
                    const bool used = std::uniform_real_distribution<>()(random) < precision;
                    right |= static_cast<uint32_t>(used) << i;
                }
                if (governor.wants_guesses(layer)) governor.observed(layer, 4, right);
            }
            const double seconds = time[most] * (1 + spread(random));
            // 4 layers of 6 experts; per layer the drive is idle for the time of two reads.
            governor.token_passed({.seconds = seconds,
                                   .wait_s = seconds * waiting,
                                   .idle_s = seconds * 0.25,
                                   .read_s = seconds * 0.75,
                                   .misses = 24});
            if (token >= tokens / 2) sum += most;
        }
        return sum / (tokens - tokens / 2);
    }
};

}  // namespace

TEST_CASE("the governor stops prefetching when it loses time, and resumes when it gains") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        PrefetchGovernor governor(4);
        CHECK(governor.off());
        CHECK(governor.guesses_for(0) == 0);
        CHECK(Machine{{1, 0.9, 0.85, 0.9, 0.95}, 0.02}.run(governor, 400, seed) > 1);
        CHECK_FALSE(governor.off());
        CHECK(Machine{{1, 1.1, 1.2, 1.3, 1.4}, 0.02}.run(governor, 2000, seed) < 0.1);
        CHECK(governor.off());
        CHECK(governor.switched_off() >= 1);
        CHECK(Machine{{1, 0.9, 0.82, 0.8, 0.8}, 0.02}.run(governor, 6000, seed) > 1);
        CHECK_FALSE(governor.off());
    }
}

TEST_CASE("the governor makes no more guesses than allowed") {
    PrefetchGovernor two(4, 2);
    CHECK(Machine{{1, 0.9, 0.82, 0.75, 0.7}, 0.01}.run(two, 400, 1) <= 2);
    PrefetchGovernor none(4, 0);
    CHECK(Machine{{1, 0.9}, 0.01}.run(none, 400, 1) == 0);
    CHECK(none.off());
}

TEST_CASE("without waiting for drives, the governor does not try") {
    PrefetchGovernor governor(4);
    CHECK(Machine{{1, 1, 1, 1, 1}, 0.005, 0.6, 0.0}.run(governor, 4000, 3) == 0);
}

TEST_CASE("a layer with bad guesses prefetches none") {
    PrefetchGovernor governor(2);
    for (int token = 0; token < 100; ++token) {
        const bool follows = governor.guesses_for(1) > 0;
        CHECK(governor.guesses_for(0) == 0);
        governor.observed(0, 4, 0);
        governor.observed(1, 4, 0xf);
        governor.token_passed({.seconds = follows ? 0.8 : 1.0,
                               .wait_s = 0.4,
                               .idle_s = follows ? 0.1 : 0.3,
                               .read_s = 0.7,
                               .misses = 12});
    }
    CHECK(governor.guesses_for(1) > 0);
}
