// A checkpoint inside a prompt is byte for byte the snapshot of a session that was fed only that
// far, and taking it changes neither results nor chunk groups.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/support/device_like.h"
#include "tests/support/models.h"

namespace sluice::test {
namespace {

using Random = std::mt19937_64;
using Snapshot = std::vector<std::byte>;

struct Setting {
    int32_t chunk, context;
    std::optional<uint32_t> slots;
    bool own_memory = false;
};

struct Opened {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Session> session;

    Opened(const std::string& model, const Setting& setting, IndexKeys keys = IndexKeys::own) {
        EngineOptions options = model_options(model);
        options.chunk = setting.chunk;
        options.context = setting.context;
        options.cache_slots = setting.slots;
        options.threads = 1;
        options.index_keys = keys;
        if (setting.own_memory) {
            options.open_device = []() -> Result<std::unique_ptr<Backend>> {
                return std::make_unique<DeviceLike>(uint64_t{96} << 20);
            };
            options.vram_slots = 20;
        }
        engine = load_engine(options);
        session = open_session(*engine);
    }
    uint64_t grouped() const { return session->stats().cache.chunks_grouped; }
};

std::vector<int32_t> random_ids(Random& random, const ModelConfig& config, size_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % uint64_t(config.vocab));
    return ids;
}

std::vector<float> fed(Session& session, std::span<const int32_t> ids) {
    auto logits = session.feed(ids);
    REQUIRE_MESSAGE(logits, (logits ? "" : logits.error().message));
    return {logits->begin(), logits->end()};
}

Snapshot snapshot_of(const Session& session) {
    auto bytes = session.snapshot();
    REQUIRE(bytes);
    return std::move(*bytes);
}

using Received = std::vector<std::pair<int32_t, Snapshot>>;

void collect(Session& session, std::vector<int32_t> positions, Received& to) {
    session.set_checkpoints(std::move(positions), [&](int32_t position, Snapshot snapshot) {
        to.emplace_back(position, std::move(snapshot));
    });
}

// Positions in the part of a prompt that is fed, some of them at borders, in no order.
std::vector<int32_t> random_positions(Random& random, int32_t begin, int32_t end, int32_t chunk) {
    std::vector<int32_t> positions = {end - 2};
    for (int i = 0; i < 5; ++i) {
        const auto span = static_cast<uint64_t>(end - begin);
        positions.push_back(begin + 1 + static_cast<int32_t>(random() % span));
    }
    positions.push_back(begin + chunk);
    positions.push_back(end);
    positions.push_back(end + 5);  // never reached
    positions.push_back(positions[1]);
    std::ranges::shuffle(positions, random);
    return positions;
}

void check_checkpoints(const std::string& model, int prompts, uint64_t seed) {
    Random random(seed);
    Opened plain(model, {512, 512, {}});
    const Setting settings[] = {{64, 512, {}},        {16, 512, 50u}, {7, 512, 60u},
                                {33, 512, 70u, true}, {300, 512, 0u}, {1, 512, 50u}};
    uint64_t grouped = 0, snapshots = 0;
    for (const Setting& setting : settings) {
        Opened opened(model, setting);
        Session& session = *opened.session;
        for (int i = 0; i < prompts; ++i) {
            const auto length = static_cast<int32_t>(20 + random() % 380);
            const auto all =
                random_ids(random, opened.engine->config(), static_cast<size_t>(length));
            const std::span<const int32_t> ids(all);
            const auto begin = static_cast<int32_t>(random() % 3 == 0 ? random() % 15 : 0);
            CAPTURE(setting.chunk);
            CAPTURE(length);
            CAPTURE(begin);
            session.reset();
            if (begin > 0) fed(session, ids.first(static_cast<size_t>(begin)));
            Received received;
            collect(session, random_positions(random, begin, length, setting.chunk), received);
            const uint64_t before = opened.grouped();
            const std::vector<float> logits = fed(session, ids.subspan(static_cast<size_t>(begin)));
            grouped += opened.grouped() - before;
            session.set_checkpoints({}, {});

            plain.session->reset();
            REQUIRE(std::ranges::is_sorted(received, {}, &Received::value_type::first));
            for (const auto& [position, snapshot] : received) {
                const auto at = static_cast<size_t>(plain.session->position());
                const auto to = static_cast<size_t>(position);
                CAPTURE(position);
                REQUIRE(to > at);
                fed(*plain.session, ids.subspan(at, to - at));
                const bool same_bytes = snapshot == snapshot_of(*plain.session);
                CHECK(same_bytes);
                ++snapshots;
            }
            CHECK(received.back().first == length);
            REQUIRE(session.restore(received.front().second));
            const auto rest = ids.subspan(static_cast<size_t>(received.front().first));
            CHECK(fed(session, rest) == logits);
        }
    }
    CHECK(grouped > 20);
    CHECK(snapshots > 10 * static_cast<uint64_t>(prompts));
}

}  // namespace

TEST_CASE("dsv41-tiny: checkpoints are the snapshots of sessions that were fed only that far") {
    check_checkpoints("dsv41-tiny", 4, 1);
}

TEST_CASE("dsv41-rand-a: checkpoints are the snapshots of sessions that were fed only that far") {
    check_checkpoints("dsv41-rand-a", 8, 2);
}

TEST_CASE("dsv4-rand-a: checkpoints are the snapshots of sessions that were fed only that far") {
    check_checkpoints("dsv4-rand-a", 4, 7);
}

TEST_CASE("dsv4-rand-a: a checkpoint at every position, in chunks of every kind") {
    constexpr int32_t length = 75;  // past windows, groups of 4 and groups of 12
    Random random(8);
    Opened plain("dsv4-rand-a", {1, 512, {}});
    const auto ids = random_ids(random, plain.engine->config(), length);
    std::vector<int32_t> positions(length);
    std::iota(positions.begin(), positions.end(), 1);
    Received want;
    for (int32_t position : positions) {
        fed(*plain.session, std::span(ids).subspan(static_cast<size_t>(position - 1), 1));
        want.emplace_back(position, snapshot_of(*plain.session));
    }
    const Setting settings[] = {{1, 512, {}},   {3, 512, 30u},       {7, 512, 30u},
                                {64, 512, 30u}, {7, 512, 30u, true}, {length, 512, 0u}};
    for (const Setting& setting : settings) {
        CAPTURE(setting.chunk);
        Opened opened("dsv4-rand-a", setting);
        Received received;
        collect(*opened.session, positions, received);
        fed(*opened.session, ids);
        CHECK((opened.grouped() > 0) == (setting.chunk > 1 && setting.chunk < length));
        CHECK(received == want);
    }
}

TEST_CASE("checkpoints leave chunk groups as they are") {
    Random random(3);
    Opened opened("dsv41-rand-a", {16, 512, 50u});
    const auto ids = random_ids(random, opened.engine->config(), 200);
    fed(*opened.session, ids);
    const RunStats plain = opened.session->stats();
    Opened again("dsv41-rand-a", {16, 512, 50u});
    Received received;
    collect(*again.session, {100, 150, 198}, received);
    fed(*again.session, ids);
    CHECK(received.size() == 3);
    const RunStats with = again.session->stats();
    CHECK(plain.cache.chunks_grouped > 1);
    CHECK(with.cache.chunks_grouped == plain.cache.chunks_grouped);
    CHECK(with.cache.prompt_asked == plain.cache.prompt_asked);
    CHECK(with.expert_bytes == plain.expert_bytes);
}

TEST_CASE("a stopped feed leaves the checkpoints of complete chunks and no others") {
    Random random(4);
    for (const bool device : {false, true}) {
        Opened opened("dsv41-rand-a", {32, 512, 0u, device});  // chunks one by one
        Session& session = *opened.session;
        const auto ids = random_ids(random, opened.engine->config(), 128);
        std::atomic<bool> stop = false;
        session.set_cancel(&stop);
        session.set_progress([&](double done) { stop = done > 0.6; });
        Received received;
        collect(session, {20, 40, 64, 70, 100}, received);
        const auto stopped = session.feed(ids);
        REQUIRE(!stopped);
        CHECK(stopped.error().code == Code::interrupted);
        CHECK(session.position() == 0);
        REQUIRE(received.size() == 3);
        CHECK(received.back().first == 64);

        stop = false;
        session.set_progress({});
        Received all;
        collect(session, {20, 40, 64, 70, 100}, all);
        const auto logits = fed(session, ids);
        REQUIRE(all.size() == 5);
        for (size_t i = 0; i < 3; ++i) CHECK(all[i] == received[i]);
        REQUIRE(session.restore(received.back().second));
        CHECK(fed(session, std::span(ids).subspan(64)) == logits);
    }
}

TEST_CASE("with the reference's index keys there are no checkpoints") {
    Random random(5);
    Opened opened("dsv41-rand-a", {128, 512, {}}, IndexKeys::reference);
    Received received;
    collect(*opened.session, {10, 20}, received);
    fed(*opened.session, random_ids(random, opened.engine->config(), 30));
    CHECK(received.empty());
}

TEST_CASE("snapshot_bytes() is the size of a snapshot without its header") {
    Random random(6);
    for (const char* model : {"dsv41-tiny", "dsv41-rand-a", "dsv4-rand-a"}) {
        Opened opened(model, {64, 512, {}});
        Session& session = *opened.session;
        const auto ids = random_ids(random, opened.engine->config(), 301);
        for (size_t count : {1, 27, 301}) {
            session.reset();
            fed(session, std::span(ids).first(count));
            const uint64_t whole = snapshot_of(session).size();
            const uint64_t content = session.snapshot_bytes(session.position());
            CHECK(content < whole);
            CHECK(whole < content + 4096);
        }
    }
}

TEST_CASE("sessions that can restore each other's snapshots are of one kind") {
    const auto kind = [](const Opened& opened) {
        auto text = opened.session->snapshot_kind();
        REQUIRE(text);
        CHECK(text->size() == 16);
        return *text;
    };
    const std::string plain = kind(Opened("dsv41-rand-a", {64, 512, {}}));
    CHECK(kind(Opened("dsv41-rand-a", {16, 256, 0u})) == plain);
    CHECK(kind(Opened("dsv41-tiny", {64, 512, {}})) != plain);
    CHECK(kind(Opened("dsv41-rand-a", {64, 512, {}}, IndexKeys::reference)) != plain);
}

}  // namespace sluice::test
