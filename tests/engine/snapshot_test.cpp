// A restored session continues with the bits of one that never stopped, wherever it was saved and
// whatever the caches, chunks and context of the session that takes it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/support/device_like.h"
#include "tests/support/models.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

using Logits = std::vector<float>;
using Random = std::mt19937_64;

int32_t below(Random& random, int32_t end) {
    return static_cast<int32_t>(random() % static_cast<uint64_t>(end));
}

// The prompts of a model's traces, one after another.
std::vector<int32_t> many_ids(const std::string& model, size_t count) {
    std::vector<int32_t> ids;
    for (int again = 0; ids.size() < count && again < 100; ++again) {
        for (const Trace& trace : golden_traces(model, IndexKeys::own)) {
            ids.insert(ids.end(), trace.prompt.begin(), trace.prompt.end());
        }
    }
    ids.resize(count);
    return ids;
}

Logits fed(Session& session, std::span<const int32_t> ids) {
    auto logits = session.feed(ids);
    REQUIRE_MESSAGE(logits, (logits ? "" : logits.error().message));
    return {logits->begin(), logits->end()};
}

bool same(const Logits& a, const Logits& b) {
    return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

std::vector<std::byte> snapshot_of(const Session& session) {
    auto bytes = session.snapshot();
    REQUIRE_MESSAGE(bytes, (bytes ? "" : bytes.error().message));
    return std::move(*bytes);
}

void must(const Result<void>& done) {
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
}

struct Setting {
    int32_t chunk, context;
    std::optional<uint32_t> slots;
    bool own_memory = false;  // a device whose memory the host cannot touch, with the CPU's bits
};

struct Opened {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Session> session;
};

Opened open_with(const std::string& model, const Setting& setting, IndexKeys keys) {
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
    Opened opened;
    opened.engine = load_engine(options);
    opened.session = open_session(*opened.engine);
    return opened;
}

// Feeds ids from `begin` on in random pieces and compares the logits after each one.
void check_continues(Session& session, std::span<const int32_t> ids, size_t end,
                     const std::vector<Logits>& want, Random& random) {
    while (static_cast<size_t>(session.position()) < end) {
        const auto at = static_cast<size_t>(session.position());
        const size_t count = std::min(end - at, random() % 3 == 0 ? random() % 9 + 1 : 1);
        CAPTURE(at);
        CHECK(same(fed(session, ids.subspan(at, count)), want[at + count - 1]));
    }
}

void feed_interrupted(Session& session, std::span<const int32_t> ids, int32_t calls) {
    std::atomic<bool> stop = false;
    session.set_cancel(&stop);
    session.set_progress([&](double) { stop = calls-- <= 0; });
    const int32_t position = session.position();
    const auto stopped = session.feed(ids);
    session.set_cancel(nullptr);
    session.set_progress({});
    REQUIRE(!stopped);
    CHECK(stopped.error().code == Code::interrupted);
    CHECK(session.position() == position);
}

constexpr int32_t length = 330, tail = 24;

// A random position, half of them beside a border of windows, groups or chunks.
int32_t save_point(Random& random, const ModelConfig& config, int32_t chunk) {
    if (random() % 2 == 0) return below(random, length + 1);
    const int32_t step = random() % 2 == 0 ? config.window : chunk;
    const int32_t at = step * (1 + below(random, length / step)) + below(random, 3) - 1;
    return std::clamp(at, 0, length);
}

// Brings a session to about `point` tokens: in pieces, with an interrupted feed, or by going back.
void walk(Session& session, std::span<const int32_t> ids, int32_t point, Random& random) {
    session.reset();
    while (session.position() < point) {
        const int32_t at = session.position(), left = point - at;
        const int32_t count = std::min(left, random() % 4 == 0 ? 1 : 1 + below(random, 150));
        fed(session, ids.subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
    }
    const auto rest = ids.subspan(static_cast<size_t>(point));
    const uint64_t end = random() % 4;
    if (end == 0) feed_interrupted(session, rest.first(20), below(random, 6));
    if (end == 1 && point > 0) {
        fed(session, rest.first(1 + random() % 4));
        REQUIRE(session.rewind_to_prefix(ids.first(static_cast<size_t>(point))));
    }
}

void check_points(const std::string& model, int points, uint64_t seed) {
    Random random(seed);
    const std::vector<int32_t> all = many_ids(model, length + tail);
    const std::span<const int32_t> ids(all);
    const Setting settings[] = {
        {64, 512, {}}, {16, 384, 0u}, {7, 512, 50u}, {32, 400, {}, true}, {300, 512, 70u}};
    std::vector<Opened> opened;
    for (const Setting& setting : settings) {
        opened.push_back(open_with(model, setting, IndexKeys::own));
    }
    std::vector<Logits> want(ids.size());
    const auto keep = [&](int32_t at, std::span<const float> logits) {
        want[static_cast<size_t>(at)].assign(logits.begin(), logits.end());
    };
    REQUIRE(opened[0].session->feed(ids, keep));  // it never stops
    const TempFolder folder;
    for (int i = 0; i < points; ++i) {
        const size_t from = random() % opened.size(), to = random() % opened.size();
        Session &source = *opened[from].session, &target = *opened[to].session;
        const ModelConfig& config = opened[from].engine->config();
        walk(source, ids, save_point(random, config, settings[from].chunk), random);
        const int32_t position = source.position();
        CAPTURE(i);
        CAPTURE(from);
        CAPTURE(to);
        CAPTURE(position);
        const std::vector<std::byte> bytes = snapshot_of(source);
        const bool file = i % 4 == 0;
        if (file) must(source.save(folder / "one"));
        const size_t end = static_cast<size_t>(position) + 1 + random() % (tail - 1);
        check_continues(source, ids, end, want, random);  // saving changes nothing

        must(file ? target.restore(folder / "one") : target.restore(bytes));
        CHECK(std::ranges::equal(target.tokens(), ids.first(static_cast<size_t>(position))));
        CHECK(snapshot_of(target) == bytes);
        if (i % 5 == 0) feed_interrupted(target, ids.subspan(target.tokens().size(), 20), 2);
        check_continues(target, ids, end, want, random);
    }
}

// A prompt in one chunk, then token by token, as the reference does.
void check_points_of_reference(const std::string& model, int points, uint64_t seed) {
    Random random(seed);
    const std::vector<int32_t> all = many_ids(model, 120);
    const std::span<const int32_t> ids(all);
    const Opened source = open_with(model, {128, 512, {}}, IndexKeys::reference);
    const Opened targets[] = {open_with(model, {100, 256, 0u}, IndexKeys::reference),
                              open_with(model, {128, 128, {}, true}, IndexKeys::reference)};
    for (int i = 0; i < points; ++i) {
        const size_t prompt = 1 + random() % 90, more = random() % 20, end = prompt + more + 6;
        CAPTURE(prompt);
        CAPTURE(more);
        source.session->reset();
        fed(*source.session, ids.first(prompt));
        std::vector<Logits> want(ids.size());
        for (size_t at = prompt; at < end; ++at) {
            want[at] = fed(*source.session, ids.subspan(at, 1));
        }
        source.session->reset();
        fed(*source.session, ids.first(prompt));
        for (size_t at = prompt; at < prompt + more; ++at) {
            fed(*source.session, ids.subspan(at, 1));
        }
        Session& target = *targets[random() % 2].session;
        must(target.restore(snapshot_of(*source.session)));
        for (size_t at = prompt + more; at < end; ++at) {
            CHECK(same(fed(target, ids.subspan(at, 1)), want[at]));
        }
    }
}

// SLUICE_TEST_FULL=1: as many as a release is tested with.
int points() {
    return std::getenv("SLUICE_TEST_FULL") ? 100 : 40;
}

}  // namespace

TEST_CASE("dsv41-tiny restored at random points continues bit for bit") {
    check_points("dsv41-tiny", points(), 1);
}

TEST_CASE("dsv41-rand-a restored at random points continues bit for bit") {
    check_points("dsv41-rand-a", points(), 2);
}

TEST_CASE("dsv4-rand-a restored at 30 random points continues bit for bit") {
    check_points("dsv4-rand-a", 30, 5);
}

TEST_CASE("restoring is bit-equal with the reference's index keys") {
    check_points_of_reference("dsv41-tiny", 20, 3);
    check_points_of_reference("dsv41-rand-a", 20, 4);
}

TEST_CASE("an empty session is a snapshot too") {
    const Opened opened = open_with("dsv41-rand-a", {32, 128, {}}, IndexKeys::own);
    Session& session = *opened.session;
    const std::vector<int32_t> ids = many_ids("dsv41-rand-a", 50);
    const std::vector<std::byte> empty = snapshot_of(session);
    const Logits want = fed(session, ids);
    must(session.restore(empty));
    CHECK(session.position() == 0);
    CHECK(same(fed(session, ids), want));
}

TEST_CASE("a snapshot restores into a smaller context if it fits") {
    const Opened large = open_with("dsv41-rand-a", {64, 512, {}}, IndexKeys::own);
    const Opened small = open_with("dsv41-rand-a", {64, 160, {}}, IndexKeys::own);
    const std::vector<int32_t> all = many_ids("dsv41-rand-a", 170);
    const std::span<const int32_t> ids(all);
    fed(*large.session, ids.first(159));
    const std::vector<std::byte> fits = snapshot_of(*large.session);
    const Logits want = fed(*large.session, ids.subspan(159, 1));
    const std::vector<std::byte> full = snapshot_of(*large.session);
    fed(*large.session, ids.subspan(160, 1));
    const std::vector<std::byte> too_long = snapshot_of(*large.session);

    must(small.session->restore(fits));
    CHECK(same(fed(*small.session, ids.subspan(159, 1)), want));
    must(small.session->restore(full));
    CHECK(small.session->position() == 160);
    CHECK(small.session->feed(ids.subspan(160, 1)).error().code == Code::usage);
    const auto refused = small.session->restore(too_long);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::usage);
    CHECK(refused.error().message.find("161") != std::string::npos);
    CHECK(refused.error().message.find("160") != std::string::npos);
    CHECK(small.session->position() == 160);
}

}  // namespace sluice::test
