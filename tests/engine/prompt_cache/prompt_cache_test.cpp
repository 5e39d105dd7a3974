// A prompt whose beginning is known gives the logits of one that was read from its first token,
// whoever knew it, and whatever happened to the files.
#include "engine/prompt_cache/prompt_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/support/models.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* model = "dsv41-rand-a";

std::vector<int32_t> ids_from(uint64_t seed, size_t count) {
    std::mt19937_64 random(seed);
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(10 + random() % 400);
    return ids;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

using Logits = std::vector<float>;

// An engine with a cache, as one process has them.
struct Process {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Session> session;
    std::unique_ptr<PromptCache> cache;

    explicit Process(const PromptCacheOptions& options, uint32_t snapshots = 16,
                     IndexKeys keys = IndexKeys::own) {
        EngineOptions wanted = model_options(model);
        wanted.context = 256;
        wanted.chunk = 32;
        wanted.threads = 1;
        wanted.prompt_snapshots = snapshots;
        wanted.index_keys = keys;
        engine = load_engine(wanted);
        session = open_session(*engine);
        cache = std::make_unique<PromptCache>(*engine, *session, options);
    }
    // Reads a prompt; what was kept of it is in `kept`.
    Logits read(std::span<const int32_t> prompt, Kept& kept, std::vector<int32_t> points = {}) {
        auto done = cache->resume(prompt);
        REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
        kept = *done;
        REQUIRE(session->position() == kept.tokens);
        cache->watch(prompt, std::move(points));
        auto logits = session->feed(prompt.subspan(static_cast<size_t>(kept.tokens)));
        REQUIRE(logits);
        cache->watch(prompt, {});
        return {logits->begin(), logits->end()};
    }
    // Reads it with what is kept, then from its first token.
    void same(std::span<const int32_t> prompt, Kept& kept) {
        const Logits logits = read(prompt, kept);
        CHECK(logits == fresh(prompt));
    }
    Logits fresh(std::span<const int32_t> prompt) {
        session->reset();
        auto logits = session->feed(prompt);
        REQUIRE(logits);
        return {logits->begin(), logits->end()};
    }
};

bool is(const Kept& kept, int32_t tokens, KeptBy by) {
    if (kept.tokens != tokens || kept.by != by) {
        MESSAGE("kept ", kept.tokens, " by ", std::string(kept_by_name(kept.by)));
    }
    return kept.tokens == tokens && kept.by == by;
}

PromptCacheOptions on_disk(const fs::path& folder, uint64_t bytes = uint64_t{1} << 30) {
    return {.folder = folder, .disk_bytes = bytes};
}

std::vector<fs::path> files_in(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::ranges::sort(files, {}, [](const fs::path& path) {
        return parse_file_name(path.filename().string())->tokens;
    });
    return files;
}

}  // namespace

TEST_CASE("the longest prefix wins, from the session or from memory") {
    Process p({});
    const auto start = ids_from(1, 100), rest = ids_from(2, 60);
    const auto prompt = joined(start, rest);
    Kept kept;
    p.read(prompt, kept, {40, 100, 158});
    CHECK(is(kept, 0, KeptBy::nothing));
    p.cache->store();
    CHECK(p.cache->counters().stored == 4);

    const auto longer = joined(prompt, ids_from(3, 10));
    Logits logits = p.read(longer, kept);
    CHECK(is(kept, 160, KeptBy::session));
    const auto edited = joined(start, ids_from(4, 50));
    p.same(edited, kept);
    CHECK(is(kept, 100, KeptBy::memory));
    CHECK(p.read(longer, kept) == logits);
    CHECK(is(kept, 160, KeptBy::memory));
    p.session->reset();
    p.same(prompt, kept);  // at most all but the last token
    CHECK(is(kept, 158, KeptBy::memory));
    const auto early = joined(ids_from(1, 41), ids_from(5, 30));
    p.same(early, kept);
    CHECK(is(kept, 40, KeptBy::memory));
    p.read(ids_from(6, 50), kept);
    CHECK(is(kept, 0, KeptBy::nothing));
    CHECK(p.cache->counters().from_memory == 4);
}

TEST_CASE("conversations alternate on one session") {
    Process p({});
    std::vector<int32_t> talks[] = {ids_from(1, 50), ids_from(2, 70), ids_from(3, 33)};
    for (int turn = 0; turn < 3; ++turn) {
        for (std::vector<int32_t>& talk : talks) {
            const auto before = static_cast<int32_t>(talk.size());
            if (turn > 0) talk = joined(talk, ids_from(talk.size(), 20));
            Kept kept;
            const Logits logits = p.read(talk, kept);
            if (turn > 0) CHECK(is(kept, before, KeptBy::memory));
            p.cache->store();
            CHECK(logits == p.fresh(talk));
        }
    }
}

TEST_CASE("another process continues from the folder") {
    const TempFolder folder;
    const auto prompt = joined(ids_from(1, 100), ids_from(2, 60));
    Logits want;
    {
        Process first(on_disk(folder / "p"));
        Kept kept;
        want = first.read(prompt, kept, {100, 158});
        first.cache->store();
        first.cache->flush();
        CHECK(first.cache->counters().written == 3);
        Process second(on_disk(folder / "p"));  // while the first one runs
        CHECK(second.read(prompt, kept) == want);
        CHECK(is(kept, 158, KeptBy::disk));
        second.cache->store();
        CHECK(second.cache->counters().stored == 0);
    }
    Process third(on_disk(folder / "p"));
    Kept kept;
    const auto longer = joined(prompt, ids_from(3, 10));
    const Logits logits = third.read(longer, kept);
    CHECK(is(kept, 160, KeptBy::disk));
    CHECK(logits == third.fresh(longer));
    third.session->reset();
    CHECK(third.read(longer, kept) == logits);
    CHECK(is(kept, 160, KeptBy::memory));  // it is in memory since then
    CHECK(files_in(folder / "p").size() == 3);
}

TEST_CASE("what is stored already is not stored again and counts as used") {
    const TempFolder folder;
    Process p(on_disk(folder / "p"));
    const auto prompt = ids_from(1, 120);
    Kept kept;
    p.read(prompt, kept, {60, 118});
    p.cache->store();
    p.cache->flush();
    for (int again = 0; again < 3; ++again) {
        p.session->reset();
        p.cache->watch(prompt, {60, 118});
        REQUIRE(p.session->feed(prompt));
        p.cache->store();
    }
    CHECK(p.cache->counters().stored == 3);
    fs::remove(files_in(folder / "p")[0]);
    p.session->reset();
    p.cache->watch(prompt, {60});  // still in memory, so its file comes back
    p.cache->flush();
    CHECK(files_in(folder / "p").size() == 3);
    CHECK(p.cache->counters().stored == 3);
}

TEST_CASE("a damaged file is removed and the next best is used") {
    const TempFolder folder;
    const auto prompt = ids_from(1, 160);
    Logits want;
    {
        Process p(on_disk(folder / "p"));
        Kept kept;
        want = p.read(prompt, kept, {30, 60, 90, 120, 150});
    }
    const auto files = files_in(folder / "p");
    REQUIRE(files.size() == 5);
    std::string bytes = read_file(files[4]);
    bytes[bytes.size() - 100] ^= 1;
    replace_file(files[4], bytes);                                   // a flipped bit
    bytes = read_file(files[3]);
    replace_file(files[3], bytes.substr(0, bytes.size() / 2));       // cut short
    replace_file(files[2], read_file(files[1]));                     // of other tokens
    Process p(on_disk(folder / "p"));
    Kept kept;
    CHECK(p.read(prompt, kept) == want);
    CHECK(is(kept, 60, KeptBy::disk));
    CHECK(p.cache->counters().damaged == 3);
    CHECK(files_in(folder / "p") == std::vector{files[0], files[1]});
}

TEST_CASE("a snapshot of the same key and other tokens is not used") {
    const TempFolder folder;
    const auto prompt = ids_from(1, 100), other = ids_from(2, 100);
    {
        Process p(on_disk(folder / "p"));
        Kept kept;
        p.read(other, kept, {50});
    }
    const auto files = files_in(folder / "p");
    REQUIRE(files.size() == 1);
    fs::rename(files[0], files[0].parent_path() / file_name(key_of(std::span(prompt).first(50))));
    Process p(on_disk(folder / "p"));
    Kept kept;
    const Logits logits = p.read(prompt, kept);
    CHECK(is(kept, 0, KeptBy::nothing));
    CHECK(logits == p.fresh(prompt));
}

TEST_CASE("memory and disk keep to their limits") {
    const TempFolder folder;
    const uint64_t limit = 400'000;
    Process p(on_disk(folder / "p", limit), 4);
    CHECK(p.engine->settings().prompt_cache_ram > 0);
    Kept kept;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        p.read(ids_from(seed, 200), kept, {50, 100, 150, 198});
        p.cache->store();
        p.cache->flush();
        uint64_t bytes = 0;
        for (const auto& file : files_in(folder / "p")) bytes += fs::file_size(file);
        CHECK(bytes <= limit);
    }
    CHECK(p.cache->counters().written > 20);
    const auto last = ids_from(19, 210);
    p.session->reset();
    p.read(joined(ids_from(19, 200), {5}), kept);
    CHECK(is(kept, 200, KeptBy::memory));
}

TEST_CASE("without memory for snapshots only the session itself is used") {
    const TempFolder folder;
    for (const auto& [snapshots, keys] :
         {std::pair(0u, IndexKeys::own), std::pair(16u, IndexKeys::reference)}) {
        Process p(on_disk(folder / "p"), snapshots, keys);
        CHECK(!p.cache->on());
        const auto prompt = ids_from(1, 30);
        Kept kept;
        p.read(prompt, kept, {10});
        p.cache->store();
        p.read(joined(prompt, {7}), kept);
        CHECK(is(kept, 30, KeptBy::session));
        CHECK(!fs::exists(folder / "p"));
        CHECK(p.cache->counters().stored == 0);
    }
}

TEST_CASE("a folder that cannot be written to changes nothing but time") {
    Process p(on_disk("/proc/sluice"));
    const auto prompt = ids_from(1, 100);
    Kept kept;
    p.read(prompt, kept, {50});
    p.cache->store();
    p.cache->flush();
    CHECK(p.cache->counters().written == 0);
    p.session->reset();
    const auto longer = joined(prompt, {9});
    const Logits logits = p.read(longer, kept);
    CHECK(is(kept, 100, KeptBy::memory));
    CHECK(logits == p.fresh(longer));
}

TEST_CASE("the plan gives snapshots at most a sixteenth of RAM and nothing that a token needs") {
    EngineOptions options = model_options(model);
    options.context = 4096;
    options.chunk = 32;
    options.threads = 1;
    const auto planned = [&](uint32_t snapshots) {
        options.prompt_snapshots = snapshots;
        return Engine::load(options);
    };
    const auto line = [](const Engine& engine) {
        uint64_t bytes = 0;
        for (const BudgetLine& one : engine.placement()) {
            if (one.what == "prompt cache") bytes += one.bytes;
        }
        return bytes;
    };
    const uint64_t five = (*planned(5))->settings().prompt_cache_ram;
    CHECK(five > 5 * (*open_session(**planned(0))).snapshot_bytes(4096));
    CHECK(five < options.ram / 16);
    CHECK(line(**planned(5)) == five);
    CHECK(line(**planned(0)) == 0);
    CHECK((*planned(100'000))->settings().prompt_cache_ram == options.ram / 16);

    size_t loaded = 0, without_room = 0;
    for (options.ram = uint64_t{8} << 20; options.ram < uint64_t{64} << 20;
         options.ram += uint64_t{2} << 20) {
        CAPTURE(options.ram);
        const auto plain = planned(0), with = planned(5);
        REQUIRE(plain.has_value() == with.has_value());
        if (!plain) {
            CHECK(plain.error().message == with.error().message);
            continue;
        }
        const Settings& settings = (*with)->settings();
        const ModelConfig& c = (*with)->config();
        CHECK(settings.prompt_cache_ram <= options.ram / 16);
        CHECK(settings.chunk == (*plain)->settings().chunk);
        CHECK(settings.cache_slots >= static_cast<uint32_t>(c.layers * c.top_k));
        ++loaded;
        without_room += settings.prompt_cache_ram == 0;
    }
    CHECK(loaded > 3);
    CHECK(loaded > without_room);
}

TEST_CASE("a stopped prompt keeps what it had read") {
    Process p({});
    const auto prompt = ids_from(1, 200);
    std::atomic<bool> stop = false;
    p.session->set_cancel(&stop);
    p.session->set_progress([&](double done) { stop = done > 0.7; });
    REQUIRE(p.cache->resume(prompt));
    p.cache->watch(prompt, {64, 128, 198});
    CHECK(!p.session->feed(prompt));
    stop = false;
    p.session->set_progress({});
    Kept kept;
    const Logits logits = p.read(prompt, kept);
    CHECK(is(kept, 128, KeptBy::memory));
    CHECK(logits == p.fresh(prompt));
}

}  // namespace sluice::test
