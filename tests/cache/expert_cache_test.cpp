#include "cache/expert_cache.h"

#include "cache/policy.h"
#include "tests/cache/rig.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<int32_t> all_experts() {
    std::vector<int32_t> all(experts);
    std::iota(all.begin(), all.end(), 0);
    return all;
}

constexpr SimFaults rough = {
    .short_read = 0.1, .again = 0.1, .eio = 0, .reorder = 0.5, .late = 0.5};

// Random decode steps, prompts and guesses; every slot given must hold the file's bytes.
void live(Rig& rig, Routes& routes, int tokens) {
    for (int token = 0; token < tokens; ++token) {
        const bool prompt = routes.number() % 5 == 0;
        const auto kind = prompt ? DemandKind::prompt : DemandKind::decode;
        for (int32_t layer = 0; layer < layers; ++layer) {
            const auto count = prompt ? 1 + static_cast<int32_t>(routes.number() % 30) : top_k;
            rig.run(layer, routes.pick(layer, count), kind, 1 + routes.number() % 2);
            if (layer + 1 < layers && routes.number() % 2 == 0) {
                const auto guesses = routes.pick(layer + 1, top_k);
                rig.cache->prefetch(layer + 1, guesses, static_cast<uint32_t>(routes.number() % 4));
            }
            for (uint64_t pumps = routes.number() % 4; pumps > 0; --pumps) {
                REQUIRE(rig.cache->pump());
            }
        }
        rig.cache->token_passed();
    }
}

void check_sums(const CacheStats& stats) {
    CHECK(stats.hits + stats.misses == stats.asked);
    CHECK(stats.late_prefetches <= stats.misses);
    CHECK(stats.prefetch_used + stats.prefetch_wasted <= stats.prefetch_started);
    CHECK(stats.guesses_right <= stats.guesses);
}

}  // namespace

TEST_CASE("a slot that is given holds the file's bytes, whatever the drive does") {
    const uint32_t sizes[] = {0, 1, 5, layers * top_k, layers * experts / 2, layers * experts};
    for (uint64_t seed = 0; seed < 48; ++seed) {
        CAPTURE(seed);
        const auto names = policy_names();
        ExpertCacheOptions options;
        options.cache_slots = sizes[seed % std::size(sizes)];
        options.transit_slots = static_cast<uint32_t>(2 + seed % 9);
        options.policy = names[seed % names.size()];
        options.seed = seed;
        options.poison = seed % 2 == 0;
        Rig rig(seed, rough, options);
        Routes routes(seed);
        live(rig, routes, 12);
        check_sums(rig.cache->stats());
    }
}

TEST_CASE("both real read engines give the file's bytes") {
    for (IoEngine engine : {IoEngine::threads, IoEngine::automatic}) {
        auto choice = make_ring_engine({.engine = engine, .depth = 16, .threads = 4});
        REQUIRE(choice);
        Rig rig(std::move(choice->engine), {.cache_slots = layers * top_k, .transit_slots = 8}, 16,
                Model::direct());
        Routes routes(7);
        live(rig, routes, 20);
        check_sums(rig.cache->stats());
    }
}

TEST_CASE("a prompt that needs every expert passes through two transit slots") {
    for (uint64_t seed = 0; seed < 8; ++seed) {
        CAPTURE(seed);
        Rig rig(seed, rough, {.cache_slots = 0, .transit_slots = 2, .poison = true});
        for (int32_t layer = 0; layer < layers; ++layer) {
            rig.run(layer, all_experts(), DemandKind::prompt, 1 + seed % 2);
        }
        CHECK(rig.cache->stats().prompt_asked == layers * experts);
        CHECK(rig.cache->stats().prompt_hits == 0);
        CHECK(rig.cache->stats().asked == 0);
    }
}

TEST_CASE("a prompt reads in file order") {
    auto engine = std::make_unique<SimEngine>(1);
    const SimEngine& drive = *engine;
    Rig rig(std::move(engine), {.cache_slots = 0, .transit_slots = 3});
    auto wanted = all_experts();
    std::shuffle(wanted.begin(), wanted.end(), std::mt19937_64(5));
    rig.run(3, wanted, DemandKind::prompt);
    std::set<uint64_t> last_reads;  // of each expert
    for (int32_t expert = 0; expert < experts; ++expert) {
        last_reads.insert(rig.model.map->plan({3, expert}).reads.back().offset);
    }
    CHECK(last_reads.size() == experts);
    std::vector<uint64_t> seen;
    for (const auto& read : drive.submitted()) {
        if (last_reads.count(read.offset)) seen.push_back(read.offset);
    }
    CHECK(seen == std::vector<uint64_t>(last_reads.begin(), last_reads.end()));
}

TEST_CASE("decode gives hits first, in router order, and never evicts its own experts") {
    for (const std::string& policy : policy_names()) {
        CAPTURE(policy);
        Rig rig(3, {}, {.cache_slots = top_k, .transit_slots = 2, .policy = policy});
        rig.run(0, {1, 2, 3, 4, 5, 6}, DemandKind::decode);
        const auto order = rig.run(0, {10, 6, 11, 1, 12, 3}, DemandKind::decode);
        CHECK(std::vector<int32_t>(order.begin(), order.begin() + 3) ==
              std::vector<int32_t>{6, 1, 3});
        for (int32_t expert : {10, 6, 11, 1, 12, 3}) CHECK(rig.cache->resident({0, expert}));
        for (int32_t expert : {2, 4, 5}) CHECK_FALSE(rig.cache->resident({0, expert}));
        CHECK(rig.cache->stats().hits == 3);
        CHECK(rig.cache->stats().misses == 9);
        CHECK(rig.cache->stats().evictions == 3);
    }
}

TEST_CASE("resident experts named in `first` are given first, and evictions stay the same") {
    for (const std::string& policy : policy_names()) {
        CAPTURE(policy);
        const ExpertCacheOptions options{
            .cache_slots = 2 * top_k, .transit_slots = 2, .policy = policy};
        Rig plain(3, {}, options), other(3, {}, options);
        std::mt19937_64 random(11);
        std::vector<int32_t> ids(16);
        std::iota(ids.begin(), ids.end(), 0);
        for (int step = 0; step < 200; ++step) {
            std::shuffle(ids.begin(), ids.end(), random);
            const std::vector<int32_t> asked(ids.begin(), ids.begin() + top_k);
            const std::vector<int32_t> first = {ids[5], ids[3], ids[9]};
            std::vector<int32_t> want;
            for (int32_t expert : {ids[3], ids[5], ids[0], ids[1], ids[2], ids[4]}) {
                if (other.cache->resident({0, expert})) want.push_back(expert);
            }
            plain.run(0, asked, DemandKind::decode);
            REQUIRE(other.cache->demand(0, asked, DemandKind::decode, false, first));
            std::vector<int32_t> got;
            for (size_t i = 0; i < asked.size(); ++i) {
                const auto handle = other.cache->next();
                REQUIRE(handle);
                got.push_back(handle->key.expert);
                other.cache->release(*handle);
            }
            got.resize(want.size());
            CHECK(got == want);
            for (int32_t expert = 0; expert < 16; ++expert) {
                CHECK(plain.cache->resident({0, expert}) == other.cache->resident({0, expert}));
            }
            plain.cache->token_passed();
            other.cache->token_passed();
        }
        CHECK(plain.cache->stats().hits == other.cache->stats().hits);
        CHECK(plain.cache->stats().evictions > 100);
    }
}

TEST_CASE("a demand larger than the cache passes through the transit slots") {
    Rig rig(3, rough, {.cache_slots = 2, .transit_slots = 2, .poison = true});
    for (int i = 0; i < 5; ++i) {
        rig.run(i % 2, {1, 2, 3, 4, 5, 6, 7, 8, 9}, DemandKind::decode, 2);
    }
}

TEST_CASE("a prompt fills slots that never held anything and evicts nothing") {
    Rig rig(3, rough, {.cache_slots = 10, .transit_slots = 2});
    rig.run(0, {0, 1, 2, 3, 4, 5}, DemandKind::decode);
    rig.run(1, all_experts(), DemandKind::prompt);
    for (int32_t expert = 0; expert < 6; ++expert) CHECK(rig.cache->resident({0, expert}));
    for (int32_t expert = 0; expert < experts; ++expert) {
        CHECK(rig.cache->resident({1, expert}) == (expert < 4));
    }
    CHECK(rig.cache->stats().evictions == 0);
}

TEST_CASE("hits and bytes depend on the cache's size, and nothing is read if all is resident") {
    uint64_t hits_before = 0, bytes_before = UINT64_MAX;
    for (uint32_t slots : {0, 64, 128, 256, 512}) {
        CAPTURE(slots);
        Rig rig(9, {}, {.cache_slots = slots, .transit_slots = 2, .policy = "lru"});
        Routes routes(4);
        for (int token = 0; token < 60; ++token) {
            for (int32_t layer = 0; layer < layers; ++layer) {
                rig.run(layer, routes.pick(layer, top_k), DemandKind::decode);
            }
            rig.cache->token_passed();
        }
        const CacheStats& stats = rig.cache->stats();
        CHECK(stats.hits >= hits_before);
        CHECK(stats.bytes_demand <= bytes_before);
        CHECK((slots == 0) == (stats.hits == 0));
        hits_before = stats.hits;
        bytes_before = stats.bytes_demand;
        if (slots < 512) continue;
        for (int32_t layer = 0; layer < layers; ++layer) {
            rig.run(layer, all_experts(), DemandKind::prompt);
        }
        const uint64_t bytes = stats.bytes_demand;
        CHECK(bytes == 512 * rig.model.map->expert_bytes({0, 0}));
        for (int32_t layer = 0; layer < layers; ++layer) {
            rig.run(layer, all_experts(), DemandKind::decode);
        }
        CHECK(stats.bytes_demand == bytes);
    }
}

TEST_CASE("handles are checked at the point of use") {
    for (bool poison : {false, true}) {
        Rig rig(1, {}, {.cache_slots = 0, .transit_slots = 2, .poison = poison});
        REQUIRE(rig.cache->demand(0, std::vector<int32_t>{5, 6}, DemandKind::decode));
        auto a = rig.cache->next();
        REQUIRE(a);
        auto base = rig.cache->bytes(*a);
        REQUIRE(base);
        ExpertHandle forged = *a;
        forged.key.expert = 6;
        CHECK(rig.cache->bytes(forged).error().code == Code::device);
        forged = *a;
        forged.slot = 99;
        CHECK_FALSE(rig.cache->bytes(forged));
        forged = *a;
        ++forged.generation;
        CHECK_FALSE(rig.cache->bytes(forged));
        rig.cache->release(forged);  // not held: ignored
        CHECK(rig.cache->bytes(*a));

        rig.cache->release(*a);
        auto stale = rig.cache->bytes(*a);
        REQUIRE_FALSE(stale);
        CHECK(stale.error().message.find("expert 5 of layer 0") != std::string::npos);
        if (poison) {
            const size_t size = rig.model.map->slot_bytes();
            CHECK(
                std::all_of(*base, *base + size, [](std::byte b) { return b == std::byte{0xff}; }));
        }
        rig.cache->release(*a);  // twice: ignored
        auto b = rig.cache->next();
        REQUIRE(b);
        rig.cache->release(*b);
        CHECK(rig.cache->demand(0, std::vector<int32_t>{5}, DemandKind::decode));
    }
}

TEST_CASE("an expert read again into the same slot has another generation") {
    Rig rig(1, {}, {.cache_slots = 1, .transit_slots = 2});
    const std::vector<int32_t> one = {1}, two = {2};
    REQUIRE(rig.cache->demand(0, one, DemandKind::decode));
    auto first = rig.cache->next();
    REQUIRE(first);
    rig.cache->release(*first);
    CHECK(rig.cache->bytes(*first));  // still there
    rig.run(0, two, DemandKind::decode);
    CHECK_FALSE(rig.cache->bytes(*first));
    rig.run(0, one, DemandKind::decode);
    CHECK(rig.cache->resident({0, 1}));
    CHECK_FALSE(rig.cache->bytes(*first));
}

TEST_CASE("misuse is refused with a message that names it") {
    Rig rig(1, {}, {.cache_slots = 8, .transit_slots = 2});
    ExpertCache& cache = *rig.cache;
    const auto refused = [&](int32_t layer, std::vector<int32_t> ids, const char* text) {
        auto asked = cache.demand(layer, ids, DemandKind::decode);
        REQUIRE_FALSE(asked);
        CHECK(asked.error().code == Code::usage);
        CHECK_MESSAGE(asked.error().message.find(text) != std::string::npos, asked.error().message);
    };
    refused(8, {1}, "layer 8");
    refused(-1, {1}, "layer -1");
    refused(2, {1, 64}, "expert 64");
    refused(2, {-1}, "expert -1");
    refused(2, {4, 5, 4}, "expert 4 is requested twice");
    CHECK_FALSE(cache.next());
    rig.run(2, {1, 2}, DemandKind::decode);
    CHECK_FALSE(cache.next());
    REQUIRE(cache.demand(2, std::vector<int32_t>{1, 2}, DemandKind::decode));
    refused(3, {1}, "not taken");
    auto a = cache.next(), b = cache.next();
    REQUIRE((a && b));
    cache.release(*a);
    refused(3, {1}, "1 not released");
    cache.release(*b);
    rig.run(3, {1}, DemandKind::decode);
}

TEST_CASE("holding every transit slot is an error, not a deadlock") {
    Rig rig(1, {}, {.cache_slots = 0, .transit_slots = 2});
    REQUIRE(rig.cache->demand(0, std::vector<int32_t>{1, 2, 3}, DemandKind::decode));
    auto a = rig.cache->next(), b = rig.cache->next();
    REQUIRE((a && b));
    auto c = rig.cache->next();
    REQUIRE_FALSE(c);
    CHECK(c.error().message.find("not released") != std::string::npos);
    rig.cache->release(*a);
    c = rig.cache->next();
    REQUIRE(c);
    CHECK(rig.exact(*b));
    CHECK(rig.exact(*c));
}

TEST_CASE("create() refuses impossible options") {
    const Model& model = Model::get();
    ReadRing ring(std::make_unique<SimEngine>(1), 8);
    auto memory = PageBuffer::create(10 * model.map->slot_bytes(), "test");
    REQUIRE(memory);
    const auto refused = [&](ExpertCacheOptions options, Code code, size_t skip = 0) {
        auto cache = ExpertCache::create(options, *model.map, ring, memory->span().subspan(skip));
        REQUIRE_FALSE(cache);
        CHECK(cache.error().code == code);
    };
    refused({.cache_slots = 4, .transit_slots = 1}, Code::usage);
    refused({.cache_slots = 4, .transit_slots = 0}, Code::usage);
    refused({.cache_slots = 9, .transit_slots = 2}, Code::no_memory);
    refused({.cache_slots = 513, .transit_slots = 2}, Code::usage);
    refused({.cache_slots = UINT32_MAX, .transit_slots = UINT32_MAX}, Code::usage);
    refused({.cache_slots = 4, .transit_slots = 2, .policy = "mru"}, Code::usage);
    refused({.cache_slots = 4, .transit_slots = 2}, Code::usage, 512);
    CHECK(ExpertCache::create({.cache_slots = 8, .transit_slots = 2}, *model.map, ring,
                              memory->span()));
}

TEST_CASE("a failed read is reported once, and the cache still works") {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        SimFaults faults = rough;
        faults.eio = 0.01;
        Rig rig(seed, faults,
                {.cache_slots = seed % 3 == 0 ? 0u : 20u,
                 .transit_slots = static_cast<uint32_t>(2 + seed % 5),
                 .poison = true});
        Routes routes(seed);
        int failures = 0, given = 0;
        for (int step = 0; step < 120; ++step) {
            const auto layer = static_cast<int32_t>(step % layers);
            const bool prompt = routes.number() % 6 == 0;
            const auto wanted = routes.pick(layer, prompt ? 20 : top_k);
            REQUIRE(
                rig.cache->demand(layer, wanted, prompt ? DemandKind::prompt : DemandKind::decode));
            std::vector<ExpertHandle> held;
            for (size_t i = 0; i < wanted.size(); ++i) {
                auto handle = rig.cache->next();
                if (!handle) {
                    ++failures;
                    const std::string& text = handle.error().message;
                    CHECK(handle.error().code == Code::io);
                    CHECK_MESSAGE(text.find(cat("layer ", layer, ", expert ")) == 0, text);
                    CHECK_MESSAGE(text.find(".safetensors") != std::string::npos, text);
                    CHECK(rig.cache->next().error().code == Code::usage);
                    for (const ExpertHandle& one : held) CHECK(rig.exact(one));
                    break;
                }
                ++given;
                CHECK(rig.exact(*handle));
                if (i % 3 == 0 && held.empty()) {
                    held.push_back(*handle);  // still held if a later one fails
                } else {
                    rig.cache->release(*handle);
                }
            }
            if (routes.number() % 2 == 0 || rig.cache->next().error().code != Code::usage) {
                for (const ExpertHandle& one : held) rig.cache->release(one);
            } else {
                rig.cache->abandon();
                for (const ExpertHandle& one : held) CHECK_FALSE(rig.cache->bytes(one));
            }
            const auto guesses = routes.pick((layer + 1) % layers, top_k);
            rig.cache->prefetch((layer + 1) % layers, guesses, 2);
        }
        CHECK(failures > 0);
        CHECK(given > failures);
    }
}

TEST_CASE("abandon() in the middle frees every slot") {
    for (uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        Rig rig(seed, rough,
                {.cache_slots = seed % 2 ? 12u : 0u, .transit_slots = 3, .poison = true});
        Routes routes(seed);
        for (int step = 0; step < 60; ++step) {
            const auto layer = static_cast<int32_t>(step % layers);
            const auto kind = routes.number() % 2 ? DemandKind::prompt : DemandKind::decode;
            const auto wanted = routes.pick(layer, 10);
            REQUIRE(rig.cache->demand(layer, wanted, kind));
            const size_t taken = routes.number() % 3;
            for (size_t i = 0; i < taken; ++i) {
                auto handle = rig.cache->next();
                REQUIRE(handle);
                CHECK(rig.exact(*handle));
                if (i == 1) rig.cache->release(*handle);
            }
            rig.cache->abandon();
            rig.run(layer, wanted, DemandKind::decode, 2);
            rig.cache->abandon();  // nothing to give up
        }
    }
}

TEST_CASE("a cache destroyed with reads in flight leaves nothing behind") {
    for (uint64_t seed = 0; seed < 10; ++seed) {
        auto engine = make_threads_engine({.depth = 8, .threads = 2});
        REQUIRE(engine);
        Rig rig(std::move(*engine), {.cache_slots = 16, .transit_slots = 8}, 8);
        REQUIRE(rig.cache->demand(0, all_experts(), DemandKind::prompt));
        if (seed % 2) REQUIRE(rig.cache->next());
        rig.cache.reset();
        CHECK(rig.ring.in_flight() == 0);
    }
}
