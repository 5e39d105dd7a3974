#include "cache/simulator.h"

#include <doctest/doctest.h>

#include "cache/policy.h"
#include "tests/cache/rig.h"
#include "tests/support/temp_folder.h"

using namespace sluice;
using namespace sluice::test;

namespace {

RouteFileHeader header_of(const Model& model) {
    return {layers, experts, top_k, model.map->expert_bytes({0, 0}), "dsv41-tiny"};
}

// A live cache, used and recorded as by the engine: prompts in chunks, then decode steps.
class Recording {
 public:
    Recording(const std::filesystem::path& path, uint64_t seed, const ExpertCacheOptions& options)
        : rig_(seed, {.reorder = 0.5, .late = 0.5}, options), routes_(seed) {
        auto made = RouteRecorder::create(path, header_of(rig_.model));
        if (!made) FAIL(made.error().message);
        recorder_ = std::move(*made);
    }
    void chunk(size_t tokens) { chunks(1, tokens); }
    // More than one chunk form a chunk group.
    void chunks(size_t count, size_t tokens) {
        std::vector<Chosen> chosen(count);
        if (count > 1) REQUIRE(rig_.cache->begin_chunk_group(static_cast<uint32_t>(count)));
        for (int32_t layer = 0; layer < layers; ++layer) {
            for (size_t i = 0; i < count; ++i) {
                prompt(layer, tokens, i + 1 < count, chosen[i]);
            }
        }
        if (count > 1) rig_.cache->end_chunk_group();
        for (size_t i = 0; i < count; ++i) {
            rig_.cache->token_passed();
            for (size_t token = 0; token < tokens; ++token) {
                for (int32_t layer = 0; layer < layers; ++layer) {
                    const size_t row = static_cast<size_t>(layer) * tokens + token;
                    recorder_->step({layer, chosen[i][row], {}});
                }
                const bool end = token + 1 == tokens;
                REQUIRE(recorder_->token_done(true, end, end && i + 1 < count));
            }
        }
    }
    void decode(uint32_t follow = 0) {
        for (int32_t layer = 0; layer < layers; ++layer) {
            const auto chosen = routes_.pick(layer, top_k);
            rig_.run(layer, chosen, DemandKind::decode, 2);
            std::vector<int32_t> guesses;
            if (layer + 1 < layers) guesses = routes_.pick(layer + 1, top_k);
            recorder_->step({layer, chosen, guesses});
            if (layer + 1 == layers) break;
            rig_.cache->prefetch(layer + 1, guesses, follow);
            for (int i = 0; follow > 0 && i < 60; ++i) REQUIRE(rig_.cache->pump());
        }
        rig_.cache->token_passed();
        REQUIRE(recorder_->token_done(false));
    }
    uint64_t number() { return routes_.number(); }
    const CacheStats& stats() const { return rig_.cache->stats(); }
    void keep() { REQUIRE(recorder_->keep()); }

 private:
    using Chosen = std::vector<std::vector<int32_t>>;  // [layer * tokens]
    void prompt(int32_t layer, size_t tokens, bool more, Chosen& chosen) {
        std::vector<int32_t> together;
        for (size_t token = 0; token < tokens; ++token) {
            chosen.push_back(routes_.pick(layer, top_k));
            for (int32_t expert : chosen.back()) {
                if (std::find(together.begin(), together.end(), expert) == together.end()) {
                    together.push_back(expert);
                }
            }
        }
        rig_.run(layer, together, DemandKind::prompt, 1, more);
    }

    Rig rig_;
    Routes routes_;
    std::unique_ptr<RouteRecorder> recorder_;
};

void check_equal(const CacheStats& a, const CacheStats& b) {
    CHECK(a.asked == b.asked);
    CHECK(a.hits == b.hits);
    CHECK(a.misses == b.misses);
    CHECK(a.evictions == b.evictions);
    CHECK(a.prompt_asked == b.prompt_asked);
    CHECK(a.prompt_hits == b.prompt_hits);
    CHECK(a.chunks_grouped == b.chunks_grouped);
    CHECK(a.guesses == b.guesses);
    CHECK(a.guesses_right == b.guesses_right);
    CHECK(a.bytes_demand == b.bytes_demand);
}

RouteFile read_back(const std::filesystem::path& path) {
    auto routes = read_route_file(path);
    if (!routes) FAIL(routes.error().message);
    return std::move(*routes);
}

}  // namespace

TEST_CASE("a replay agrees with the live cache to the last hit") {
    TempFolder folder;
    const uint32_t sizes[] = {0, 4, layers * top_k, 100, 200, layers * experts};
    uint64_t seed = 0;
    for (const std::string& policy : policy_names()) {
        for (uint32_t slots : sizes) {
            CAPTURE(policy);
            CAPTURE(slots);
            ++seed;
            Recording live(
                folder / "routes", seed,
                {.cache_slots = slots, .transit_slots = 8, .policy = policy, .seed = seed});
            for (int turn = 0; turn < 3; ++turn) {
                for (uint64_t chunks = live.number() % 3; chunks > 0; --chunks) {
                    live.chunk(1 + live.number() % 4);
                }
                for (int step = 0; step < 8; ++step) live.decode();
            }
            live.keep();
            const RouteFile routes = read_back(folder / "routes");
            auto replay = simulate(routes, {policy, "router", slots, 0, seed});
            REQUIRE(replay);
            check_equal(live.stats(), *replay);
            if (slots == layers * top_k) CHECK(replay->evictions > 0);
            if (slots >= layers * top_k) CHECK(replay->hits > 0);
        }
    }
}

TEST_CASE("a replay agrees with chunk groups to the last hit") {
    TempFolder folder;
    const uint32_t sizes[] = {4, layers * top_k, 70, 300, layers * experts};
    uint64_t seed = 100;
    for (const std::string& policy : policy_names()) {
        for (uint32_t slots : sizes) {
            CAPTURE(policy);
            CAPTURE(slots);
            ++seed;
            Recording live(
                folder / "routes", seed,
                {.cache_slots = slots, .transit_slots = 8, .policy = policy, .seed = seed});
            for (int turn = 0; turn < 4; ++turn) {
                live.chunks(1 + (seed + turn) % 4, 1 + live.number() % 9);
                for (int step = 0; step < 6; ++step) live.decode();
            }
            live.keep();
            RouteFile routes = read_back(folder / "routes");
            const SimulateOptions options{policy, "router", slots, 0, seed};
            auto replay = simulate(routes, options);
            REQUIRE(replay);
            check_equal(live.stats(), *replay);
            CHECK(replay->chunks_grouped > 4);
            CHECK(replay->prompt_hits > 0);
            // One after another they would have had fewer hits, and the replay shows it.
            for (RecordedToken& token : routes.tokens) token.group_continues = false;
            auto apart = simulate(routes, options);
            REQUIRE(apart);
            CHECK(apart->chunks_grouped == 0);
            if (slots < 300) CHECK(apart->prompt_hits < replay->prompt_hits);
        }
    }
}

TEST_CASE("if the drive is always in time, the replay agrees with prefetching, too") {
    TempFolder folder;
    for (uint32_t follow : {1u, 2u, 4u}) {
        for (uint32_t slots : {0u, 60u}) {
            CAPTURE(follow);
            CAPTURE(slots);
            Recording live(folder / "routes", follow,
                           {.cache_slots = slots, .transit_slots = 16, .policy = "lru"});
            for (int step = 0; step < 20; ++step) live.decode(follow);
            live.keep();
            auto replay =
                simulate(read_back(folder / "routes"), {"lru", "router", slots, follow, 0});
            REQUIRE(replay);
            check_equal(live.stats(), *replay);
            CHECK(live.stats().prefetch_started == replay->prefetch_started);
            CHECK(live.stats().prefetch_used == replay->prefetch_used);
            CHECK(live.stats().prefetch_wasted == replay->prefetch_wasted);
            CHECK(live.stats().bytes_prefetch == replay->bytes_prefetch);
            CHECK(replay->prefetch_used > 0);
        }
    }
}

TEST_CASE("no policy beats belady") {
    for (uint64_t seed = 0; seed < 5; ++seed) {
        Routes random(seed);
        RouteFile routes{header_of(Model::get()), {}};
        for (int i = 0; i < 80; ++i) {
            RecordedToken token;
            for (int32_t layer = 0; layer < layers; ++layer) {
                const auto chosen = random.pick(layer, top_k);
                token.chosen.insert(token.chosen.end(), chosen.begin(), chosen.end());
            }
            token.guesses.assign(layers * top_k, -1);
            routes.tokens.push_back(std::move(token));
        }
        for (uint32_t slots : {48u, 96u, 200u}) {
            CAPTURE(seed);
            CAPTURE(slots);
            auto best = simulate(routes, {"belady", "none", slots, 0, 0});
            REQUIRE(best);
            for (const std::string& policy : policy_names()) {
                CAPTURE(policy);
                auto rival = simulate(routes, {policy, "none", slots, 0, seed});
                REQUIRE(rival);
                CHECK(rival->hits < best->hits);
            }
        }
    }
}

TEST_CASE("belady keeps what is needed soonest") {
    RouteFile routes{{1, 8, 1, 10, "one layer"}, {}};
    for (int32_t expert : {0, 1, 2, 0, 1, 3, 0, 2}) {
        RecordedToken token;
        token.chosen = {expert};
        token.guesses = {-1};
        routes.tokens.push_back(token);
    }
    // Two slots: 2 replaces 1 (0 comes sooner), 1 replaces 2, 3 replaces 1, 2 replaces 3 or 0.
    auto best = simulate(routes, {"belady", "none", 2, 0, 0});
    REQUIRE(best);
    CHECK(best->hits == 2);
    CHECK(best->bytes_demand == 60);
    auto lru = simulate(routes, {"lru", "none", 2, 0, 0});
    CHECK(lru->hits == 0);
}

TEST_CASE("the simulator refuses unknown names and impossible sizes") {
    const RouteFile routes{header_of(Model::get()), {}};
    CHECK(simulate(routes, {}));
    auto policy = simulate(routes, {"mru", "none", 4, 0, 0});
    REQUIRE_FALSE(policy);
    CHECK(policy.error().message.find("belady") != std::string::npos);
    CHECK_FALSE(simulate(routes, {"lru", "crystal ball", 4, 0, 0}));
    CHECK_FALSE(simulate(routes, {"lru", "none", layers * experts + 1, 0, 0}));
}
