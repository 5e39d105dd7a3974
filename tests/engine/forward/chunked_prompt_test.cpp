// Chunk groups, whose chunks all pass a layer before the next one: the bits of separate chunks,
// each expert read once, and no trace of a group that ended early.
#include <cstring>

#include "cache/simulator.h"
#include "io/text.h"
#include "tests/support/device_like.h"
#include "tests/support/models.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

using Logits = std::vector<std::vector<float>>;

enum class On { cpu, device };

EngineOptions chunked(const std::string& model, int32_t chunk, uint32_t slots, On on = On::cpu) {
    EngineOptions options = model_options(model);
    options.chunk = chunk;
    options.cache_slots = slots;
    options.threads = 1;
    if (on == On::cpu) return options;
    options.device = "device-like";
    options.open_device = []() -> Result<std::unique_ptr<Backend>> {
        return std::make_unique<DeviceLike>(uint64_t{96} << 20);
    };
    options.vram_slots = 20;
    return options;
}

// The longest prompt among the traces of a model.
std::vector<int32_t> long_prompt(const std::string& model) {
    std::vector<int32_t> longest;
    for (const Trace& trace : golden_traces(model, IndexKeys::own)) {
        if (trace.prompt.size() > longest.size()) longest = trace.prompt;
    }
    return longest;
}

void keep(Logits& all, const Result<std::span<const float>>& logits) {
    REQUIRE_MESSAGE(logits, (logits ? "" : logits.error().message));
    all.emplace_back(logits->begin(), logits->end());
}

// The logits of every position: of a prompt, of a second one, and of a few single tokens.
Logits run(Session& session, std::span<const int32_t> ids) {
    Logits all;
    const auto each = [&](int32_t position, std::span<const float> logits) {
        CHECK(position == static_cast<int32_t>(all.size()));
        all.emplace_back(logits.begin(), logits.end());
    };
    const size_t part = ids.size() * 2 / 3;
    REQUIRE(session.feed(ids.first(part), each));
    REQUIRE(session.feed(ids.subspan(part, ids.size() - part - 4), each));
    for (size_t i = ids.size() - 4; i < ids.size(); ++i) keep(all, session.feed(ids.subspan(i, 1)));
    return all;
}

bool same(const Logits& a, const Logits& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
        if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
    }
    return true;
}

bool noted(const Engine& engine, const std::string& what) {
    for (const std::string& note : engine.notes()) {
        if (note.find(what) != std::string::npos) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("the logits of every position do not depend on chunk and order") {
    struct Model {
        const char* name;
        uint32_t least, experts;  // that a cache can keep; a layer's, or of two small layers
    };
    for (const Model& model : {Model{"dsv41-tiny", 48, 64}, Model{"dsv41-rand-a", 18, 24},
                               Model{"dsv4-rand-a", 18, 24}}) {
        std::vector<int32_t> ids = long_prompt(model.name);
        ids.resize(std::min<size_t>(ids.size(), 120));
        Logits want;
        for (On on : {On::cpu, On::device}) {
            for (int32_t chunk : {512, 64, 7, 1}) {
                for (uint32_t slots : {0u, model.least, model.experts, 2 * model.experts + 5}) {
                    if (chunk == 1 && slots != model.least) continue;
                    if (chunk == 512 && slots != model.least) continue;
                    CAPTURE(model.name);
                    CAPTURE(chunk);
                    CAPTURE(slots);
                    CAPTURE(on == On::cpu);
                    auto engine = load_engine(chunked(model.name, chunk, slots, on));
                    auto session = open_session(*engine);
                    const Logits got = run(*session, ids);
                    if (want.empty()) want = got;
                    CHECK(same(got, want));
                    const bool grouped = session->stats().cache.chunks_grouped > 0;
                    CHECK(grouped == (slots > 0 && chunk < 512));
                }
            }
        }
    }
}

TEST_CASE("a prompt of several chunks reads as much as a prompt of one") {
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    const std::span<const int32_t> prompt = std::span(ids).first(240);
    for (On on : {On::cpu, On::device}) {
        const auto fed = [&](int32_t chunk, uint32_t slots) {
            EngineOptions options = chunked("dsv41-tiny", chunk, slots, on);
            if (on == On::device) options.vram_slots = 0;
            options.overlap = Overlap::none;  // nothing is read ahead
            auto engine = load_engine(options);
            auto session = open_session(*engine);
            REQUIRE(session->feed(prompt));
            const RunStats stats = session->stats();
            CHECK(stats.cache.bytes_demand ==
                  (stats.cache.prompt_asked - stats.cache.prompt_hits) * engine->expert_bytes());
            return stats;
        };
        const uint64_t once = fed(512, 64).cache.bytes_demand;
        uint64_t apart = 0;
        for (int32_t chunk : {16, 80}) {
            if (on == On::device && chunk == 16) continue;
            CAPTURE(chunk);
            const uint64_t chunks = 240 / static_cast<uint64_t>(chunk);
            for (uint32_t slots : {64u, 300u}) {
                CAPTURE(slots);
                const RunStats stats = fed(chunk, slots);
                CHECK(stats.cache.bytes_demand == once);
                CHECK(stats.cache.chunks_grouped == chunks);
            }
            const RunStats off = fed(chunk, 0), less = fed(chunk, 48), all = fed(chunk, 512);
            CHECK(off.cache.chunks_grouped == 0);
            CHECK(off.cache.prompt_hits == 0);
            CHECK(less.cache.chunks_grouped == chunks);
            CHECK(less.cache.bytes_demand > once);
            CHECK(less.cache.bytes_demand < once + (off.cache.bytes_demand - once) / 2);
            CHECK(all.cache.chunks_grouped == 0);  // the cache keeps all experts anyway
            CHECK(all.cache.bytes_demand == once);
            if (apart > 0) CHECK(off.cache.bytes_demand < apart);  // larger chunks read less
            apart = off.cache.bytes_demand;
        }
    }
}

TEST_CASE("with read-ahead an expert is still read once, and nothing waits for a slot") {
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    for (uint32_t slots : {48u, 64u, 90u}) {
        CAPTURE(slots);
        EngineOptions options = chunked("dsv41-tiny", 50, slots);
        auto engine = load_engine(options);
        auto session = open_session(*engine);
        REQUIRE(session->feed(std::span(ids).first(250)));
        const CacheStats& cache = session->stats().cache;
        CHECK(cache.ahead_started > 0);
        if (slots < 64) continue;
        // Experts that no chunk chose may have been read as well.
        CHECK(cache.bytes_demand <= 8 * 64 * engine->expert_bytes());
    }
}

TEST_CASE("a prompt whose chunks do not all fit in RAM is fed in several groups") {
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    const std::span<const int32_t> prompt = std::span(ids).first(300);
    auto whole = load_engine(chunked("dsv41-tiny", 20, 64));
    CHECK(noted(*whole, "prompts longer than 20 tokens: experts are read once for up to 512"));
    auto session = open_session(*whole);
    Logits want;
    keep(want, session->feed(prompt));
    CHECK(session->stats().cache.chunks_grouped == 15);
    session.reset();

    EngineOptions options = chunked("dsv41-tiny", 20, 64);
    options.ram = 0;
    uint64_t store = 0;
    for (const BudgetLine& line : whole->placement()) {
        options.ram += line.bytes;
        if (line.what == "prompt chunks, 512 tokens") store = line.bytes;
    }
    REQUIRE(store > 0);
    bool several = false, none = false;
    for (uint64_t less : {uint64_t{0}, store / 2, store * 9 / 10, store - 10000, store}) {
        CAPTURE(less);
        EngineOptions smaller = options;
        smaller.ram -= less;
        auto engine = load_engine(smaller);
        auto other = open_session(*engine);
        Logits got;
        keep(got, other->feed(prompt));
        CHECK(same(got, want));
        const uint64_t grouped = other->stats().cache.chunks_grouped;
        const bool refused = noted(*engine, "RAM cannot hold two such chunks");
        CHECK(refused == (grouped == 0));
        // Every group reads each expert once.
        const CacheStats& cache = other->stats().cache;
        if (grouped == 15 && cache.prompt_asked - cache.prompt_hits > 8u * 64) several = true;
        none |= refused;
    }
    CHECK(several);
    CHECK(none);
}

TEST_CASE("after a stop or a failure inside a group the session is where it was") {
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    const std::span<const int32_t> all(ids);
    for (On on : {On::cpu, On::device}) {
        auto engine = load_engine(chunked("dsv41-tiny", 16, 70, on));
        auto session = open_session(*engine);
        for (size_t start : {size_t{0}, size_t{7}, size_t{120}}) {
            Logits want, before;
            const auto begin = [&] {
                session->reset();
                if (start > 0) REQUIRE(session->feed(all.first(start)));
            };
            begin();
            keep(want, session->feed(all.subspan(start, 90)));
            for (int stop_at : {1, 60, 155, 1500}) {
                CAPTURE(start);
                CAPTURE(stop_at);
                CAPTURE(on == On::cpu);
                begin();
                std::atomic<bool> stop = false;
                int calls = 0;
                session->set_cancel(&stop);
                session->set_progress([&](double) { stop = stop || ++calls == stop_at; });
                const auto stopped = session->feed(all.subspan(start, 90));
                REQUIRE(!stopped);
                CHECK(stopped.error().code == Code::interrupted);
                CHECK(session->position() == static_cast<int32_t>(start));
                CHECK(session->tokens() == std::vector<int32_t>(ids.begin(), ids.begin() + start));
                session->set_cancel(nullptr);
                session->set_progress({});
                Logits got;
                keep(got, session->feed(all.subspan(start, 90)));
                CHECK(same(got, want));
            }
        }
        CHECK(session->stats().cache.chunks_grouped > 0);
    }
}

TEST_CASE("a drive failure in a chunk is reported, and the next group reads again") {
    TempFolder folder;
    const std::string model = (folder / "model").string();
    link_files(model_path("dsv41-tiny"), model);
    const auto shard = folder / "model/model-00006-of-00012.safetensors";
    const std::string bytes = read_file(shard);
    replace_file(shard, bytes);
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    for (On on : {On::cpu, On::device}) {
        EngineOptions options = chunked("dsv41-tiny", 32, 64, on);
        options.locations = {model};
        auto engine = load_engine(options);
        auto session = open_session(*engine);
        Logits want, got;
        keep(want, session->feed(std::span(ids).first(100)));
        session->reset();
        std::filesystem::resize_file(shard, 8192);
        for (int again = 0; again < 2; ++again) {
            const auto failed = session->feed(std::span(ids).first(100));
            REQUIRE(!failed);
            CHECK(failed.error().message.find("model-00006-of-00012") != std::string::npos);
            CHECK(session->position() == 0);
        }
        {
            std::ofstream back(shard, std::ios::binary | std::ios::in);
            back.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        }
        keep(got, session->feed(std::span(ids).first(100)));
        CHECK(same(got, want));
    }
}

TEST_CASE("routes of a chunk group replay to the same hits") {
    TempFolder folder;
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    for (uint32_t slots : {48u, 64u, 100u, 300u, 512u}) {
        for (const char* policy : {"aging-lru", "layer-lru", "slru"}) {
            if (slots != 100 && policy != std::string("aging-lru")) continue;
            CAPTURE(slots);
            CAPTURE(policy);
            EngineOptions options = chunked("dsv41-tiny", 16, slots);
            options.cache_policy = policy;
            options.record_routes = (folder / "routes").string();
            CacheStats live;
            {
                auto engine = load_engine(options);
                auto session = open_session(*engine);
                size_t at = 0;
                for (size_t count : {70u, 1u, 1u, 1u, 1u, 40u, 1u, 1u, 10u, 1u, 33u, 1u}) {
                    REQUIRE(session->feed(std::span(ids).subspan(at, count)));
                    at += count;
                }
                live = session->stats().cache;
            }
            const auto routes = read_route_file(folder / "routes");
            REQUIRE_MESSAGE(routes, (routes ? "" : routes.error().message));
            CHECK(routes->tokens.size() == 161);
            const auto replayed = simulate(*routes, {policy, "none", slots, 0, 0});
            REQUIRE_MESSAGE(replayed, (replayed ? "" : replayed.error().message));
            CHECK(replayed->hits == live.hits);
            CHECK(replayed->misses == live.misses);
            CHECK(replayed->evictions == live.evictions);
            CHECK(replayed->prompt_asked == live.prompt_asked);
            CHECK(replayed->prompt_hits == live.prompt_hits);
            CHECK(replayed->chunks_grouped == live.chunks_grouped);
            CHECK((live.chunks_grouped > 0) == (slots < 512));
            std::filesystem::remove(folder / "routes");
        }
    }
}

TEST_CASE("progress grows from layer to layer and ends at 1") {
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    auto engine = load_engine(chunked("dsv41-tiny", 16, 64));
    auto session = open_session(*engine);
    double last = 0, at_half = 0;
    size_t calls = 0, jumps = 0;
    session->set_progress([&](double done) {
        ++calls;
        CHECK(done >= last);
        CHECK(done <= 1.0 + 1e-9);
        if (done - last > 0.01) ++jumps;
        last = done;
        if (done <= 0.5) at_half = done;
    });
    REQUIRE(session->feed(std::span(ids).first(200)));
    CHECK(last == doctest::Approx(1.0));
    CHECK(at_half == doctest::Approx(0.5).epsilon(0.02));
    CHECK(calls > 1000);
    CHECK(jumps == 0);
}

TEST_CASE("one chunk and a token after it make no extra trip to the host") {
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    uint64_t trips[2];
    for (int32_t chunk : {64, 512}) {
        auto engine = load_engine(chunked("dsv41-tiny", chunk, 64, On::device));
        auto session = open_session(*engine);
        REQUIRE(session->feed(std::span(ids).first(60)));
        REQUIRE(session->feed(std::span(ids).subspan(60, 1)));
        trips[chunk == 64] = session->stats().device.downloads;
    }
    CHECK(trips[0] == trips[1]);
}

TEST_CASE("a chunk that waits for its turn makes a few trips to the host per layer") {
    const std::vector<int32_t> ids = long_prompt("dsv41-tiny");
    uint64_t trips[2];
    for (uint32_t slots : {0u, 64u}) {
        auto engine = load_engine(chunked("dsv41-tiny", 50, slots, On::device));
        auto session = open_session(*engine);
        REQUIRE(session->feed(std::span(ids).first(200)));
        CHECK(session->stats().cache.chunks_grouped == (slots ? 4 : 0));
        trips[slots > 0] = session->stats().device.downloads;
    }
    // Streams and coefficients after 7 layers, the rotation tables once, 3 lists and a candidate
    // mask.
    CHECK(trips[1] - trips[0] <= 4 * (7 * 2 + 4 + 3 + 1));
    CHECK(trips[1] - trips[0] >= 4 * 7 * 2);
}

}  // namespace sluice::test
