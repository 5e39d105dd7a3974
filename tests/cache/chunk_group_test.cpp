// Chunk groups: each expert is read once, whatever the drive does, and the cache is complete again
// afterwards.
#include <doctest/doctest.h>

#include "tests/cache/rig.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr uint64_t all = layers * experts;
constexpr uint32_t transit = 8;

std::vector<int32_t> every_expert() {
    std::vector<int32_t> ids(experts);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

void pump_dry(Rig& rig) {
    for (int i = 0; i < 200; ++i) REQUIRE(rig.cache->pump());
}

// `chunks` chunks of a prompt that need every expert, layer by layer, with read-ahead as in the
// engine.
void prompt(Rig& rig, int32_t chunks, size_t hold = 1) {
    REQUIRE(rig.cache->begin_chunk_group(static_cast<uint32_t>(chunks)));
    const auto ids = every_expert();
    for (int32_t layer = 0; layer < layers; ++layer) {
        for (int32_t chunk = 0; chunk < chunks; ++chunk) {
            const bool more = chunk + 1 < chunks;
            rig.run(layer, ids, DemandKind::prompt, hold, more);
            if (!more || rig.cache->keeps_layer()) {
                if (layer + 1 < layers) rig.cache->read_ahead(layer + 1, ids);
            } else {
                rig.cache->read_ahead(layer, ids);
            }
            pump_dry(rig);
        }
    }
    rig.cache->end_chunk_group();
    for (int32_t chunk = 0; chunk < chunks; ++chunk) rig.cache->token_passed();
}

uint64_t reads(const Rig& rig) {
    return rig.cache->stats().bytes_demand / rig.model.map->expert_bytes({0, 0});
}

SimFaults rough() {
    return {.short_read = 0.1, .again = 0.1, .eio = 0, .reorder = 0.5, .late = 0.5};
}

}  // namespace

TEST_CASE("with a layer's slots, a prompt of several chunks reads no more than one of one chunk") {
    for (uint32_t slots : {64u, 65u, 100u, 300u}) {
        for (int32_t chunks : {2, 3, 5}) {
            CAPTURE(slots);
            CAPTURE(chunks);
            Rig rig(slots, rough(),
                    {.cache_slots = slots, .transit_slots = transit, .poison = true});
            prompt(rig, chunks, 1 + slots % 3);
            CHECK(reads(rig) == all);
            const CacheStats& stats = rig.cache->stats();
            CHECK(stats.prompt_asked == all * static_cast<uint64_t>(chunks));
            CHECK(stats.prompt_hits == all * static_cast<uint64_t>(chunks - 1));
            CHECK(stats.ahead_dropped == 0);
            CHECK(stats.ahead_started > 0);
            CHECK(stats.evictions == 0);
            CHECK(stats.chunks_grouped == static_cast<uint64_t>(chunks));
        }
    }
}

TEST_CASE("with fewer slots, as many experts stay as fit, and the others are read again") {
    for (uint32_t slots : {6u, 48u, 63u}) {
        for (int32_t chunks : {2, 4}) {
            CAPTURE(slots);
            CAPTURE(chunks);
            Rig rig(slots, rough(),
                    {.cache_slots = slots, .transit_slots = transit, .poison = true});
            prompt(rig, chunks);
            const auto later = static_cast<uint64_t>(chunks - 1);
            CHECK(reads(rig) == all + later * layers * (experts - slots));
            CHECK(rig.cache->stats().prompt_hits == later * layers * slots);
        }
    }
    // Those that stayed come first, while the others are read.
    Rig rig(1, {}, {.cache_slots = 20, .transit_slots = transit});
    REQUIRE(rig.cache->begin_chunk_group(2));
    rig.run(0, every_expert(), DemandKind::prompt, 1, true);
    const auto order = rig.run(0, every_expert(), DemandKind::prompt);
    for (int32_t i = 0; i < 20; ++i) CHECK(order[i] == i);
    rig.cache->end_chunk_group();
}

TEST_CASE("a full cache lends the entries of its policy's victims and keeps the others") {
    Rig rig(3, {}, {.cache_slots = 200, .transit_slots = transit, .policy = "lru", .poison = true});
    std::vector<ExpertKey> used;  // oldest first
    for (int32_t layer = 0; layer < layers; ++layer) {
        std::vector<int32_t> ids(25);
        std::iota(ids.begin(), ids.end(), layer);
        rig.run(layer, ids, DemandKind::decode);
        for (int32_t expert : ids) used.push_back({layer, expert});
    }
    CHECK(reads(rig) == 200);
    prompt(rig, 3);
    const size_t lent = 2 * experts;  // one layer to keep, one to read ahead
    CHECK(reads(rig) == 200 + all - (200 - lent));
    CHECK(rig.cache->stats().evictions == lent);
    for (size_t i = 0; i < used.size(); ++i) {
        CHECK(rig.cache->resident(used[i]) == (i >= lent));
    }
    // The lent entries can be used again.
    for (size_t i = 0; i < lent; ++i) {
        rig.run(used[i].layer, {used[i].expert}, DemandKind::decode);
    }
    CHECK(rig.cache->stats().evictions == lent);
    for (ExpertKey key : used) CHECK(rig.cache->resident(key));
}

TEST_CASE("whether a chunk group pays") {
    Rig off(1, {}, {.cache_slots = 0, .transit_slots = transit});
    CHECK(!off.cache->chunk_group_pays(4));
    Rig small(1, {}, {.cache_slots = 6, .transit_slots = transit});
    CHECK(small.cache->chunk_group_pays(2));
    CHECK(!small.cache->chunk_group_pays(1));
    CHECK(!small.cache->keeps_layer());
    Rig layer(1, {}, {.cache_slots = experts, .transit_slots = transit});
    CHECK(layer.cache->keeps_layer());
    // If all experts fit, the first chunk reads what the others need.
    Rig whole(1, {}, {.cache_slots = all, .transit_slots = transit});
    CHECK(!whole.cache->chunk_group_pays(2));
    for (int32_t i = 0; i < layers; ++i) whole.run(i, every_expert(), DemandKind::prompt);
    CHECK(!whole.cache->chunk_group_pays(9));
    // If all but a few fit, lending entries costs more than it saves.
    Rig most(1, {}, {.cache_slots = all - 20, .transit_slots = transit});
    for (int32_t i = 0; i < layers; ++i) most.run(i, every_expert(), DemandKind::prompt);
    CHECK(!most.cache->chunk_group_pays(2));
    CHECK(most.cache->chunk_group_pays(9));
}

TEST_CASE("after a chunk group is given up, the cache is complete again") {
    for (uint64_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        const auto slots = static_cast<uint32_t>(10 + seed * 7 % 120);
        Rig rig(seed, rough(), {.cache_slots = slots, .transit_slots = transit, .poison = true});
        std::mt19937_64 random(seed);
        for (int turn = 0; turn < 4; ++turn) {
            REQUIRE(rig.cache->begin_chunk_group(3));
            const auto layer = static_cast<int32_t>(random() % layers);
            rig.run(layer, every_expert(), DemandKind::prompt, 1, true);
            if (layer + 1 < layers && rig.cache->keeps_layer()) {
                rig.cache->read_ahead(layer + 1, every_expert());
            }
            if (turn % 2 == 0) {
                REQUIRE(rig.cache->demand(layer, every_expert(), DemandKind::prompt, true));
                for (uint64_t taken = random() % experts; taken > 0; --taken) {
                    auto handle = rig.cache->next();
                    REQUIRE(handle);
                    if (taken > 2) rig.cache->release(*handle);
                }
            }
            rig.cache->abandon();
            rig.cache->end_chunk_group();
            // All transit and cache slots are available.
            const uint64_t before = reads(rig);
            rig.run(layer, every_expert(), DemandKind::prompt, transit);
            CHECK(reads(rig) >= before + experts - std::min<uint64_t>(slots, experts));
            for (int32_t i = 0; i < layers; ++i) {
                rig.run(i, {0, 1, 2, 3, 4, 5}, DemandKind::decode, 6);
            }
            rig.cache->token_passed();
        }
    }
}

TEST_CASE("what only a later chunk asks for finds room beside what was read ahead") {
    for (uint32_t slots : {20u, 64u, 120u}) {
        CAPTURE(slots);
        Rig rig(5, rough(), {.cache_slots = slots, .transit_slots = 3, .poison = true});
        REQUIRE(rig.cache->begin_chunk_group(3));
        const auto ids = every_expert();
        for (int32_t layer = 0; layer < layers; ++layer) {
            const std::vector<int32_t> few(ids.begin(), ids.begin() + 5);
            rig.run(layer, few, DemandKind::prompt, 1, true);
            if (layer + 1 < layers) rig.cache->read_ahead(layer + 1, ids);
            pump_dry(rig);
            rig.run(layer, ids, DemandKind::prompt, 2, true);
            rig.run(layer, ids, DemandKind::prompt, 2, false);
            pump_dry(rig);
        }
        rig.cache->end_chunk_group();
        if (slots == 64) CHECK(reads(rig) == all);
    }
}
