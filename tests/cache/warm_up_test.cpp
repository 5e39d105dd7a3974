#include "cache/warm_up.h"

#include <doctest/doctest.h>

#include <random>

#include "cache/expert_cache.h"
#include "tests/cache/rig.h"

using namespace sluice;
using namespace sluice::test;

namespace {

void warm(Rig& rig, const std::vector<ExpertKey>& keys) {
    rig.cache->warm_up(keys);
    for (int i = 0; i < 10000; ++i) {
        auto more = rig.cache->go_on_warming_up();
        REQUIRE(more);
        if (!*more) return;
    }
    FAIL("the warm-up does not end");
}

std::vector<ExpertKey> keys_of(int32_t layer, std::initializer_list<int32_t> experts) {
    std::vector<ExpertKey> keys;
    for (int32_t expert : experts) keys.push_back({layer, expert});
    return keys;
}

}  // namespace

TEST_CASE("what a warm-up reads are hits afterwards, with the bytes of the checkpoint") {
    Rig rig(1, {}, {.cache_slots = 16, .transit_slots = 8, .poison = true});
    warm(rig, keys_of(3, {5, 9, 13}));
    const CacheStats& stats = rig.cache->stats();
    CHECK(stats.warmed == 3);
    CHECK(stats.bytes_demand == 0);
    CHECK(stats.bytes_prefetch == 3 * rig.model.map->expert_bytes({3, 5}));
    rig.run(3, {5, 9, 13, 14}, DemandKind::decode);
    CHECK(stats.hits == 3);
    CHECK(stats.misses == 1);
    CHECK(stats.evictions == 0);
}

TEST_CASE("a warm-up fills what is empty and evicts nothing") {
    Rig rig(1, {}, {.cache_slots = 4, .transit_slots = 8});
    rig.run(0, {1, 2}, DemandKind::decode);
    warm(rig, keys_of(1, {3, 4, 5, 6, 7}));
    CHECK(rig.cache->stats().evictions == 0);
    CHECK(rig.cache->stats().warmed == 2);
    CHECK(rig.cache->resident({0, 1}));
    CHECK(rig.cache->resident({0, 2}));
    CHECK(rig.cache->resident({1, 3}));
    CHECK(rig.cache->resident({1, 4}));
    CHECK_FALSE(rig.cache->resident({1, 5}));
}

TEST_CASE("after a warm-up the least valuable expert is evicted first, and what was used last") {
    Rig rig(1, {}, {.cache_slots = 4, .transit_slots = 8, .policy = "lru"});
    rig.run(0, {1}, DemandKind::decode);
    warm(rig, keys_of(1, {3, 4, 5}));
    for (const auto& [asked, gone] : {std::pair{20, ExpertKey{1, 5}}, {21, {1, 4}}, {22, {1, 3}}}) {
        CHECK(rig.cache->resident(gone));
        rig.run(2, {asked}, DemandKind::decode);
        CHECK_FALSE(rig.cache->resident(gone));
        CHECK(rig.cache->resident({0, 1}));
    }
    rig.run(2, {23}, DemandKind::decode);
    CHECK_FALSE(rig.cache->resident({0, 1}));
    CHECK(rig.cache->by_recency() == keys_of(2, {23, 22, 21, 20}));
}

TEST_CASE("a demand takes over an expert that a warm-up is reading") {
    Rig rig(1, {.late = 0.999999}, {.cache_slots = 16, .transit_slots = 8});
    rig.cache->warm_up(keys_of(1, {3}));
    REQUIRE(rig.cache->pump());
    rig.run(1, {3, 4}, DemandKind::decode);
    CHECK(rig.cache->stats().misses == 2);
    CHECK(rig.cache->stats().warmed == 0);
    CHECK(rig.cache->resident({1, 3}));
    auto more = rig.cache->go_on_warming_up();
    REQUIRE(more);
    CHECK_FALSE(*more);
}

TEST_CASE("a warm-up reads nothing while demand reads of the same drive are waiting") {
    Rig rig(1, {.late = 0.9}, {.cache_slots = 32, .transit_slots = 8});
    rig.cache->warm_up(keys_of(1, {3, 4, 5, 6}));
    std::vector<int32_t> wanted = {10, 11, 12, 13, 14, 15};
    REQUIRE(rig.cache->demand(0, wanted, DemandKind::decode));
    CHECK(rig.cache->stats().bytes_prefetch == 0);
    for (size_t i = 0; i < wanted.size(); ++i) {
        const auto handle = rig.cache->next();
        REQUIRE(handle);
        if (i + 1 < wanted.size()) CHECK(rig.cache->stats().warmed == 0);
        rig.cache->release(*handle);
    }
    warm(rig, keys_of(1, {3, 4, 5, 6}));
    CHECK(rig.cache->stats().warmed == 4);
}

TEST_CASE("keys that do not exist, that are there already and that come twice are passed over") {
    Rig rig(1, {}, {.cache_slots = 16, .transit_slots = 8});
    rig.run(1, {4}, DemandKind::decode);
    warm(rig, {{1, 4}, {-1, 0}, {0, experts}, {layers, 0}, {2, 7}, {2, 7}, {2, 8}});
    CHECK(rig.cache->stats().warmed == 2);
    CHECK(rig.cache->resident({2, 7}));
    CHECK(rig.cache->resident({2, 8}));
}

TEST_CASE("a drive that fails ends the warm-up and nothing else") {
    Rig rig(7, {.eio = 0.05}, {.cache_slots = 64, .transit_slots = 8});
    std::vector<ExpertKey> all;
    for (int32_t expert = 0; expert < experts; ++expert) all.push_back({2, expert});
    warm(rig, all);
    CHECK(rig.cache->stats().warmed < 64);
    for (int32_t expert = 0; expert < experts; ++expert) {
        if (rig.cache->resident({2, expert})) rig.run(2, {expert}, DemandKind::decode);
    }
    CHECK(rig.cache->stats().misses == 0);
}

TEST_CASE("demands between the reads of a warm-up always get the right bytes") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        const auto slots = static_cast<uint32_t>(8 + random() % 120);
        Rig rig(seed, {.late = 0.5},
                {.cache_slots = slots, .transit_slots = 8, .seed = seed, .poison = true});
        Routes routes(seed);
        std::vector<ExpertKey> keys;
        for (int i = 0; i < 200; ++i) {
            keys.push_back({static_cast<int32_t>(random() % layers),
                            static_cast<int32_t>(random() % experts)});
        }
        rig.cache->warm_up(keys);
        for (int token = 0; token < 12; ++token) {
            const bool prompt = random() % 4 == 0;
            const bool group = prompt && random() % 2 == 0;
            if (group) REQUIRE(rig.cache->begin_chunk_group(2));
            for (int32_t layer = 0; layer < layers; ++layer) {
                const auto wanted = routes.pick(layer, prompt ? 20 : top_k);
                const auto kind = prompt ? DemandKind::prompt : DemandKind::decode;
                if (group) rig.run(layer, wanted, kind, 2, true);
                rig.run(layer, wanted, kind, 2);
                if (random() % 3 == 0) REQUIRE(rig.cache->go_on_warming_up());
            }
            if (group) rig.cache->end_chunk_group();
            rig.cache->token_passed();
        }
        const CacheStats& stats = rig.cache->stats();
        CHECK(stats.hits + stats.misses == stats.asked);
    }
}
