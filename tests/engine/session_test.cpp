// What a session promises: failures leave no trace, rewinding keeps what it reports, limits are
// errors that name both numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cache/simulator.h"
#include "io/checkpoint/checkpoint.h"
#include "tests/support/models.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using Logits = std::vector<float>;

constexpr const char* tiny = "dsv41-tiny";
constexpr const char* v4 = "dsv4-rand-a";

std::vector<int32_t> long_prompt(const std::string& model = tiny) {
    const std::string name = model == tiny ? "/dsv41-tiny-10.json" : "/dsv4-rand-a-03.json";
    const auto trace = read_trace(test::golden_folder + name);
    REQUIRE(trace);
    return trace->prompt;
}

Logits fed(Session& session, std::span<const int32_t> ids) {
    auto logits = session.feed(ids);
    REQUIRE_MESSAGE(logits, (logits ? "" : logits.error().message));
    return {logits->begin(), logits->end()};
}

bool same(const Logits& a, const Logits& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

EngineOptions small_chunks(int32_t chunk, const std::string& model = tiny) {
    EngineOptions options = test::model_options(model);
    options.chunk = chunk;
    options.threads = 1;
    return options;
}

}  // namespace

TEST_CASE("a session tells which experts are cached") {
    EngineOptions options = small_chunks(16);
    options.cache_slots = 512;  // all
    options.prefetch = 0;
    auto engine = test::load_engine(options);
    auto session = test::open_session(*engine);
    const auto cached = [&] {
        const CachedExperts all = session->cached_experts();
        CHECK(all.layers == engine->config().layers);
        CHECK(all.experts == engine->config().experts);
        CHECK(all.places.size() == static_cast<size_t>(all.layers * all.experts));
        return all.places;
    };
    const auto in_ram = [](const std::vector<uint8_t>& places) {
        const auto count = std::count(places.begin(), places.end(), CachedExperts::in_ram);
        return static_cast<uint64_t>(count);
    };
    CHECK(in_ram(cached()) == 0);
    const int32_t one[] = {0}, two[] = {75};
    fed(*session, one);
    const auto after_one = cached();
    CHECK(in_ram(after_one) > 0);
    CHECK(in_ram(after_one) == session->stats().cache.misses);
    session->reset();
    fed(*session, one);
    CHECK(cached() == after_one);
    fed(*session, two);
    CHECK(in_ram(cached()) == session->stats().cache.misses);
    CHECK(in_ram(cached()) > in_ram(after_one));
}

TEST_CASE("experts that a prompt passes through are not counted as cached") {
    EngineOptions options = small_chunks(16);
    options.cache_slots = 60;
    auto engine = test::load_engine(options);
    auto session = test::open_session(*engine);
    int looks = 0;
    session->set_progress([&](double) {
        const CachedExperts all = session->cached_experts();
        CHECK(std::count(all.places.begin(), all.places.end(), CachedExperts::in_ram) <= 60);
        ++looks;
    });
    std::vector<int32_t> prompt(100);
    std::iota(prompt.begin(), prompt.end(), 5);
    fed(*session, prompt);
    CHECK(looks > 0);
}

static void check_stopping(const std::string& model) {
    auto engine = test::load_engine(small_chunks(16, model));
    auto session = test::open_session(*engine);
    const std::vector<int32_t> ids = long_prompt(model);
    const std::span<const int32_t> all(ids);
    for (size_t start : {size_t{0}, size_t{7}, size_t{120}}) {
        CAPTURE(start);
        session->reset();
        if (start > 0) fed(*session, all.first(start));
        const Logits want = fed(*session, all.subspan(start, 90));
        session->reset();
        if (start > 0) fed(*session, all.first(start));

        std::atomic<bool> stop = false;
        int32_t calls = 0;
        session->set_cancel(&stop);
        session->set_progress([&](double) { stop = ++calls == 23; });
        const auto stopped = session->feed(all.subspan(start, 90));
        REQUIRE(!stopped);
        CHECK(stopped.error().code == Code::interrupted);
        CHECK(session->position() == static_cast<int32_t>(start));
        CHECK(session->tokens() == std::vector<int32_t>(ids.begin(), ids.begin() + start));

        session->set_cancel(nullptr);
        session->set_progress({});
        CHECK(same(fed(*session, all.subspan(start, 90)), want));
    }
}

TEST_CASE("stopping a prompt leaves the session where it was") {
    for (const char* model : {tiny, v4}) check_stopping(model);
}

// The drive fails while `count` tokens are fed after `before`.
static void check_failure(const std::string& name, const std::string& shard_name, size_t before,
                          size_t count) {
    TempFolder folder;
    const std::string model = (folder / "model").string();
    link_files(test::model_path(name), model);
    const auto shard = folder / ("model/" + shard_name);
    const std::string bytes = read_file(shard);
    replace_file(shard, bytes);

    EngineOptions options = small_chunks(32, name);
    options.locations = {model};
    options.cache_slots = 0;
    auto engine = test::load_engine(options);
    auto session = test::open_session(*engine);
    const std::vector<int32_t> all = long_prompt(name);
    const std::span<const int32_t> ids = std::span(all).subspan(before, count);
    const Logits want = fed(*session, std::span(all).first(before));
    const Logits next = fed(*session, ids);

    session->reset();
    CHECK(same(fed(*session, std::span(all).first(before)), want));
    std::filesystem::resize_file(shard, 8192);
    for (int again = 0; again < 2; ++again) {
        const auto failed = session->feed(ids);
        REQUIRE(!failed);
        CHECK(failed.error().code == Code::corrupt);  // the file ends too early
        CHECK(failed.error().message.find(shard_name) != std::string::npos);
        CHECK(session->position() == static_cast<int32_t>(before));
    }
    {
        std::ofstream back(shard, std::ios::binary | std::ios::in);
        back.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    CHECK(same(fed(*session, ids), next));
}

TEST_CASE("a failed drive is an error, and the session goes on when it is back") {
    check_failure(tiny, "model-00004-of-00012.safetensors", 20, 1);
    // In the last layer, when the others have completed groups of 4 and 12: one, and several.
    check_failure(v4, "model-00007-of-00010.safetensors", 23, 1);
    check_failure(v4, "model-00007-of-00010.safetensors", 23, 30);
}

TEST_CASE("an expert with NaN in it ends with a numerical error that names the position") {
    TempFolder folder;
    const std::string model = (folder / "model").string();
    link_files(test::model_path("dsv41-tiny"), model);
    CheckpointOptions where;
    where.locations = {model};
    auto checkpoint = Checkpoint::open(where);
    REQUIRE(checkpoint);
    const std::filesystem::path shard = folder / "model/model-00005-of-00012.safetensors";
    std::string bytes = read_file(shard);
    for (const Tensor& tensor : checkpoint->tensors()) {
        if (tensor.name.starts_with("layers.3.ffn.experts.") && tensor.name.ends_with("w2.scale")) {
            REQUIRE(checkpoint->shards()[tensor.shard].path().filename() == shard.filename());
            bytes[tensor.offset + 5] = '\xff';
        }
    }
    replace_file(shard, bytes);
    EngineOptions options = small_chunks(32);
    options.locations = {model};
    auto engine = test::load_engine(options);
    auto session = test::open_session(*engine);
    const std::vector<int32_t> ids = long_prompt();
    const auto failed = session->feed(std::span(ids).first(9));
    REQUIRE(!failed);
    CHECK(failed.error().code == Code::numerical);
    CHECK(failed.error().message.find("position") != std::string::npos);
    CHECK(session->position() == 0);
}

TEST_CASE("a full context is an error that names both numbers, before anything is computed") {
    EngineOptions options = small_chunks(8);
    options.context = 24;
    auto engine = test::load_engine(options);
    auto session = test::open_session(*engine);
    const std::vector<int32_t> ids = long_prompt();
    CHECK(session->feed(std::span(ids).first(24)));
    const auto full = session->feed(std::span(ids).first(1));
    REQUIRE(!full);
    CHECK(full.error().code == Code::usage);
    CHECK(full.error().message.find("24") != std::string::npos);
    CHECK(full.error().message.find("25") != std::string::npos);
    CHECK(session->position() == 24);
    session->reset();
    CHECK(!session->feed(std::span(ids).first(25)));
    CHECK(session->feed(std::span(ids).first(23)));
    CHECK(session->feed(std::span(ids).first(1)));

    CHECK(session->feed({}).error().code == Code::usage);
    session->reset();
    const int32_t beyond = engine->config().vocab, below = -1;
    CHECK(session->feed({&beyond, 1}).error().code == Code::usage);
    CHECK(session->feed({&below, 1}).error().code == Code::usage);
    CHECK(session->position() == 0);
}

// `certain`: whether a sequence that fits the window can be cut from one length to another.
static void check_rewinding(const std::string& model, bool (*certain)(int32_t from, int32_t to)) {
    auto engine = test::load_engine(small_chunks(64, model));
    auto session = test::open_session(*engine);
    const std::vector<int32_t> ids = long_prompt(model);
    const int32_t window = engine->config().window;
    for (int32_t length : {6, 20, window, window + 1, 100}) {
        for (int32_t keep : {0, 1, 5, 6, 12, 17, 20, 23, 24, 31, 32, 33, 98, 99, 100}) {
            if (keep > length) continue;
            CAPTURE(length);
            CAPTURE(keep);
            // A different continuation after `keep` common tokens.
            std::vector<int32_t> other(ids.begin(), ids.begin() + keep);
            other.insert(other.end(), ids.begin() + 200, ids.begin() + 209);
            session->reset();
            const Logits want = fed(*session, other);

            session->reset();
            fed(*session, std::span(ids).first(length));
            const auto kept = session->rewind_to_prefix(other);
            REQUIRE(kept);
            CHECK(*kept <= keep);
            CHECK(session->position() == *kept);
            if (keep == length) CHECK(*kept == keep);
            if (length <= window && certain(length, keep)) CHECK(*kept == keep);
            CHECK(same(fed(*session, std::span<const int32_t>(other).subspan(*kept)), want));
        }
    }
    // The same ids again: the last one has to be fed for its logits.
    session->reset();
    const Logits want = fed(*session, std::span(ids).first(40));
    const auto kept = session->rewind_to_prefix(std::span(ids).first(40));
    REQUIRE(kept);
    CHECK(*kept < 40);
    CHECK(same(fed(*session, std::span<const int32_t>(ids).first(40).subspan(*kept)), want));
}

TEST_CASE("rewinding keeps what it reports, and what is kept is right") {
    check_rewinding(tiny, [](int32_t, int32_t to) { return to % 2 == 0; });
    check_rewinding(v4, [](int32_t from, int32_t to) { return from / 4 == to / 4; });
}

static void check_every_position(const std::string& model) {
    auto engine = test::load_engine(small_chunks(7, model));
    auto session = test::open_session(*engine);
    const std::vector<int32_t> ids = long_prompt(model);
    std::vector<Logits> each;
    auto last = session->feed(std::span(ids).first(40), [&](int32_t position, auto logits) {
        CHECK(position == static_cast<int32_t>(each.size()));
        each.emplace_back(logits.begin(), logits.end());
    });
    REQUIRE(last);
    REQUIRE(each.size() == 40);
    CHECK(same(each.back(), Logits(last->begin(), last->end())));
    session->reset();
    for (int32_t i = 0; i < 40; ++i) {
        CAPTURE(i);
        CHECK(same(fed(*session, {&ids[i], 1}), each[i]));
    }
}

TEST_CASE("the logits of every position are those of feeding one by one") {
    for (const char* model : {tiny, v4}) check_every_position(model);
}

TEST_CASE(
    "the best token alone is the first of the largest logits, and a failure is the same error") {
    auto engine = test::load_engine(small_chunks(16));
    auto session = test::open_session(*engine);
    std::vector<int32_t> ids = long_prompt();
    std::span<const int32_t> next(ids);
    for (int step = 0; step < 4; ++step) {
        CAPTURE(step);
        const Logits logits = fed(*session, next);
        const auto want = std::max_element(logits.begin(), logits.end()) - logits.begin();
        const std::vector<int32_t> all = session->tokens();
        const auto kept = session->rewind_to_prefix(all);
        REQUIRE(kept);
        const auto best = session->feed_best(std::span(all).subspan(*kept));
        REQUIRE(best);
        CHECK(*best == want);
        ids = {*best};
        next = ids;
    }
    const std::vector<int32_t> outside = {engine->config().vocab};
    const auto refused = session->feed_best(outside);
    REQUIRE(!refused);
    CHECK(refused.error().message == session->feed(outside).error().message);
}

// With caches of so many experts, the first one being off.
static void check_prefetching(const std::string& model, std::initializer_list<uint32_t> caches) {
    const std::vector<int32_t> ids = long_prompt(model);
    std::vector<Logits> first;
    for (std::optional<uint32_t> prefetch :
         {std::optional<uint32_t>(0), std::optional<uint32_t>(2), std::optional<uint32_t>()}) {
        for (uint32_t slots : caches) {
            EngineOptions options = small_chunks(32, model);
            options.prefetch = prefetch;
            options.cache_slots = slots;
            auto engine = test::load_engine(options);
            auto session = test::open_session(*engine);
            std::vector<Logits> all = {fed(*session, std::span(ids).first(30))};
            for (size_t i = 30; i < 60; ++i) all.push_back(fed(*session, {&ids[i], 1}));
            if (first.empty()) first = all;
            for (size_t i = 0; i < all.size(); ++i) CHECK(same(all[i], first[i]));
            const RunStats& stats = session->stats();
            CHECK(stats.prompt_tokens == 30);
            CHECK(stats.decode_tokens == 30);
            if (prefetch == 2u && slots == 0) CHECK(stats.cache.prefetch_started > 0);
            if (prefetch == 0u) CHECK(stats.cache.prefetch_started == 0);
        }
    }
}

TEST_CASE("prefetching changes no bit") {
    check_prefetching(tiny, {0, 48, 200});
    check_prefetching(v4, {0, 18, 40});
}

static void check_recorded_routes(const std::string& model, uint32_t slots) {
    TempFolder folder;
    EngineOptions options = small_chunks(16, model);
    options.cache_slots = slots;
    options.record_routes = (folder / "routes").string();
    const std::vector<int32_t> ids = long_prompt(model);
    CacheStats live;
    int32_t layers = 0, experts = 0, top_k = 0;
    {
        auto engine = test::load_engine(options);
        const ModelConfig& config = engine->config();
        layers = config.layers, experts = config.experts, top_k = config.top_k;
        auto session = test::open_session(*engine);
        fed(*session, std::span(ids).first(50));
        for (size_t i = 50; i < 110; ++i) fed(*session, {&ids[i], 1});
        live = session->stats().cache;
    }
    const auto routes = read_route_file(folder / "routes");
    REQUIRE_MESSAGE(routes, (routes ? "" : routes.error().message));
    CHECK(static_cast<int32_t>(routes->header.layers) == layers);
    CHECK(static_cast<int32_t>(routes->header.experts) == experts);
    CHECK(static_cast<int32_t>(routes->header.top_k) == top_k);
    CHECK(routes->header.model == model);
    REQUIRE(routes->tokens.size() == 110);
    CHECK(routes->tokens[49].prompt);
    CHECK(!routes->tokens[50].prompt);
    CHECK(routes->tokens[60].guesses[0] >= 0);
    SimulateOptions simulation;
    simulation.slots = slots;
    const auto replayed = simulate(*routes, simulation);
    REQUIRE_MESSAGE(replayed, (replayed ? "" : replayed.error().message));
    CHECK(replayed->asked == live.asked);
    CHECK(replayed->hits == live.hits);
    CHECK(replayed->misses == live.misses);
    CHECK(replayed->prompt_hits == live.prompt_hits);
    CHECK(live.hits > 0);
    CHECK(live.misses > 0);
}

TEST_CASE("recorded routes replay to the same hits") {
    check_recorded_routes(tiny, 100);
    for (uint32_t slots : {18u, 40u}) check_recorded_routes(v4, slots);
}

TEST_CASE("one session at a time, options stay, settings are what is used") {
    auto engine = test::load_engine(small_chunks(0));
    {
        auto session = test::open_session(*engine);
        CHECK(engine->session().error().code == Code::usage);
    }
    CHECK(engine->session());
    CHECK(engine->options().cache_slots == std::nullopt);
    CHECK(engine->settings().chunk > 0);
    CHECK(engine->settings().cache_slots == 512);
    CHECK(!engine->placement().empty());
    CHECK(engine->expert_bytes() == 3 * 64 * 256 / 2 + 3 * 64 * 256 / 32);
}

TEST_CASE("too little memory is refused with numbers") {
    EngineOptions options = test::model_options("dsv41-tiny");
    options.ram = 1 << 20;
    auto engine = Engine::load(options);
    REQUIRE(!engine);
    CHECK(engine.error().code == Code::no_memory);
    CHECK(engine.error().message.find("dense weights") != std::string::npos);

    options = test::model_options("dsv41-tiny");
    options.cache_slots = 47;
    engine = Engine::load(options);
    REQUIRE(!engine);
    CHECK(engine.error().code == Code::usage);
    CHECK(engine.error().message.find("48") != std::string::npos);

    options = test::model_options("dsv41-tiny");
    options.context = 1 << 20;
    engine = Engine::load(options);
    REQUIRE(!engine);
    CHECK(engine.error().message.find("16384") != std::string::npos);

    options = test::model_options("dsv41-tiny");
    options.device = "tpu";
    CHECK(Engine::load(options).error().code == Code::usage);
}

TEST_CASE("loading can be stopped and reports its progress") {
    std::atomic<bool> stop = true;
    auto engine = Engine::load(test::model_options("dsv41-tiny"), {}, &stop);
    REQUIRE(!engine);
    CHECK(engine.error().code == Code::interrupted);
    stop = false;
    uint64_t last = 0, whole = 0;
    const auto told = [&](uint64_t done, uint64_t all) {
        CHECK(done >= last);
        last = done, whole = all;
    };
    CHECK(Engine::load(test::model_options("dsv41-tiny"), told, &stop));
    CHECK(last == whole);
    CHECK(whole > 0);
}

}  // namespace sluice
