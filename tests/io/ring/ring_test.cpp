#include "io/ring/ring.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "io/clock.h"
#include "io/log.h"
#include "io/memory.h"
#include "io/text.h"
#include "tests/support/messages.h"
#include "tests/support/seccomp.h"
#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

using EngineMaker = std::function<std::unique_ptr<RingEngine>(uint32_t depth, uint64_t seed)>;

// The engines that work on this machine; io_uring may be forbidden.
std::vector<std::pair<std::string, EngineMaker>> engines() {
    std::vector<std::pair<std::string, EngineMaker>> makers;
    if (make_uring_engine({.depth = 1})) {
        makers.emplace_back("uring", [](uint32_t depth, uint64_t) {
            return std::move(*make_uring_engine({.depth = depth}));
        });
    }
    makers.emplace_back("threads", [](uint32_t depth, uint64_t) {
        return std::move(*make_threads_engine({.depth = depth, .threads = 4}));
    });
    makers.emplace_back("simulated", [](uint32_t, uint64_t seed) {
        return std::make_unique<SimEngine>(
            seed, SimFaults{.short_read = 0.3, .again = 0.2, .reorder = 0.5, .late = 0.3});
    });
    return makers;
}

void on_every_engine(const std::function<void(const EngineMaker&)>& test) {
    for (const auto& [name, maker] : engines()) {
        CAPTURE(name);
        test(maker);
    }
}

// Remembers its finished reads, and checks that each is reported once.
struct Recorder : ReadClient {
    std::map<uint64_t, std::optional<Error>> told;
    std::vector<uint64_t> order;
    void read_done(uint64_t tag, std::optional<Error> error) override {
        REQUIRE(told.emplace(tag, std::move(error)).second);
        order.push_back(tag);
    }
    std::string message(uint64_t tag) const {
        const auto& error = told.at(tag);
        return error ? error->message : "fine";
    }
};

struct Fixture {
    TempFolder folder = TempFolder::on_drive();
    std::string content;
    File file;
    PageBuffer memory;

    explicit Fixture(size_t bytes = 1'000'003, Access access = Access::direct)
        : content(random_bytes(bytes, bytes)) {
        auto opened = File::open(folder.write("shard", content), access);
        REQUIRE(opened);
        file = std::move(*opened);
        auto made = PageBuffer::create(round_up(bytes, page_size) + page_size, "a test");
        REQUIRE(made);
        memory = std::move(*made);
        std::memset(memory.data(), 0xee, memory.size());
    }

    // The read of `blocks` pages from page `first` on, to the same place in memory.
    Read read(uint64_t first, uint32_t blocks, ReadClient& client, uint64_t tag) const {
        const uint64_t offset = first * page_size;
        const uint32_t length = blocks * page_size;
        const auto needed = static_cast<uint32_t>(
            std::min<uint64_t>(length, offset < content.size() ? content.size() - offset : 0));
        return {.file = &file,
                .offset = offset,
                .to = memory.data() + offset,
                .length = length,
                .needed = needed,
                .client = &client,
                .tag = tag};
    }
    bool arrived(const Read& read) const {
        return std::memcmp(read.to, content.data() + read.offset, read.needed) == 0;
    }
};

void drain(ReadRing& ring) {
    while (ring.in_flight() > 0) REQUIRE(ring.reap(true));
}

}  // namespace

TEST_CASE("every read arrives complete and is reported once, on every engine") {
    for (const Access access : {Access::direct, Access::buffered}) {
        Fixture f(1'000'003, access);
        const uint64_t pages = round_up(f.content.size(), page_size) / page_size;
        on_every_engine([&](const EngineMaker& make) {
            for (uint64_t seed = 1; seed <= 20; ++seed) {
                CAPTURE(seed);
                std::mt19937_64 random(seed);
                const auto depth = static_cast<uint32_t>(1 + random() % 32);
                ReadRing ring(make(depth, seed), depth);
                REQUIRE(ring.add_file(f.file));
                if (random() % 2 == 0) REQUIRE(ring.add_memory(f.memory.span()));
                std::memset(f.memory.data(), 0xee, f.memory.size());
                Recorder client;
                std::vector<Read> reads;
                for (uint64_t page = 0; page < pages;) {
                    const auto blocks =
                        static_cast<uint32_t>(1 + random() % std::min<uint64_t>(16, pages - page));
                    reads.push_back(f.read(page, blocks, client, page));
                    page += blocks;
                }
                std::shuffle(reads.begin(), reads.end(), random);
                uint64_t bytes = 0;
                for (const Read& read : reads) {
                    while (ring.free() == 0) REQUIRE(*ring.reap(true) > 0);
                    ring.queue(read);
                    bytes += read.needed;
                    if (random() % 3 == 0) REQUIRE(ring.reap(false));
                    CHECK(ring.in_flight() + ring.free() == depth);
                }
                drain(ring);
                CHECK(client.told.size() == reads.size());
                for (const auto& [tag, error] : client.told) CHECK(!error);
                CHECK(std::memcmp(f.memory.data(), f.content.data(), f.content.size()) == 0);
                CHECK(ring.stats().reads == reads.size());
                CHECK(ring.stats().bytes == bytes);
                CHECK(*ring.reap(true) == 0);  // nothing in flight: does not block
            }
        });
    }
}

TEST_CASE("bytes past the end of the file are zero, whatever was there") {
    Fixture f(10'000);
    on_every_engine([&](const EngineMaker& make) {
        ReadRing ring(make(4, 3), 4);
        Recorder client;
        std::memset(f.memory.data(), 0xee, f.memory.size());
        const Read read = f.read(1, 2, client, 7);
        CHECK(read.needed == 10'000 - 4096);
        ring.queue(read);
        drain(ring);
        CHECK(client.message(7) == "fine");
        CHECK(f.arrived(read));
        CHECK(std::all_of(read.to + read.needed, read.to + read.length,
                          [](std::byte b) { return b == std::byte{0}; }));
    });
}

TEST_CASE("after a file was truncated, the reads that miss bytes fail") {
    for (const Access access : {Access::direct, Access::buffered}) {
        Fixture f(100'000, access);
        std::filesystem::resize_file(f.file.path(), 20'000);
        on_every_engine([&](const EngineMaker& make) {
            ReadRing ring(make(8, 5), 8);
            Recorder client;
            ring.queue(f.read(0, 4, client, 0));   // complete
            ring.queue(f.read(4, 4, client, 1));   // the end is inside, within a block
            ring.queue(f.read(10, 4, client, 2));  // past the end
            drain(ring);
            ring.queue(f.read(0, 25, client, 3));  // the same memory
            drain(ring);
            CHECK(client.message(0) == "fine");
            for (const uint64_t tag : {1, 2, 3}) {
                CHECK(mentions(client.message(tag), "ends early"));
                CHECK(mentions(client.message(tag), f.file.path().native()));
                CHECK(client.told.at(tag)->code == Code::corrupt);
            }
            CHECK(
                mentions(client.message(1), "read at offset 16384: wanted 16384 bytes, got 3616"));
        });
    }
}

TEST_CASE("clients may queue from read_done") {
    Fixture f;
    struct Chain : Recorder {
        Fixture* f;
        ReadRing* ring;
        void read_done(uint64_t tag, std::optional<Error> error) override {
            Recorder::read_done(tag, std::move(error));
            REQUIRE(ring->free() > 0);
            if (tag < 50) ring->queue(f->read(tag + 1, 1, *this, tag + 1));
        }
    };
    on_every_engine([&](const EngineMaker& make) {
        ReadRing ring(make(1, 1), 1);
        Chain client;
        client.f = &f;
        client.ring = &ring;
        ring.queue(f.read(0, 1, client, 0));
        drain(ring);
        CHECK(client.told.size() == 51);
        CHECK(client.order.back() == 50);
    });
}

TEST_CASE("a bad descriptor is an error for its client, and the ring still works") {
    Fixture f;
    on_every_engine([&](const EngineMaker& make) {
        ReadRing ring(make(4, 1), 4);
        Recorder client;
        const File closed;
        Read bad = f.read(0, 1, client, 0);
        bad.file = &closed;
        ring.queue(bad);
        ring.queue(f.read(1, 1, client, 1));
        drain(ring);
        CHECK(mentions(client.message(0), "EBADF"));
        CHECK(client.message(1) == "fine");
    });
}

TEST_CASE("a ring that ends with reads in flight waits for them") {
    Fixture f;
    on_every_engine([&](const EngineMaker& make) {
        Recorder client;
        {
            ReadRing ring(make(16, 1), 16);
            for (uint32_t i = 0; i < 16; ++i) ring.queue(f.read(i * 4, 4, client, i));
            REQUIRE(ring.submit());
        }
        {
            ReadRing ring(make(16, 1), 16);
            ring.queue(f.read(0, 1, client, 99));  // queued, never submitted
        }
        CHECK(client.told.empty());
    });
}

TEST_CASE("stats: busy while reads are in flight, waiting only inside reap") {
    Fixture f;
    on_every_engine([&](const EngineMaker& make) {
        ReadRing ring(make(2, 1), 2);
        Recorder client;
        double around = 0;  // the same, measured from outside
        for (uint64_t tag = 0; tag < 3; ++tag) {
            const auto begin = Clock::now();
            ring.queue(f.read(tag, 1, client, tag));
            REQUIRE(ring.submit());
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            drain(ring);
            around += seconds_since(begin);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        CHECK(ring.stats().busy_s >= 0.03);
        CHECK(ring.stats().busy_s <= around);
        CHECK(ring.stats().wait_s <= ring.stats().busy_s - 0.03);
    });
}

TEST_CASE("scripted completions") {
    Fixture f;
    auto owned = std::make_unique<SimEngine>(1);
    SimEngine& engine = *owned;
    ReadRing ring(std::move(owned), 4);
    Recorder client;
    const Read read = f.read(3, 4, client, 0);
    const auto submitted = [&] {
        std::vector<std::pair<uint64_t, uint32_t>> list;
        for (const auto& raw : engine.submitted()) list.emplace_back(raw.offset, raw.length);
        return list;
    };
    using List = std::vector<std::pair<uint64_t, uint32_t>>;
    if (f.file.access() != Access::direct) return;  // no direct reads in this folder
    const uint64_t block = f.file.alignment();

    SUBCASE("a short direct read goes on from the front of the block it stopped in") {
        engine.script({static_cast<int64_t>(block) + 100, -EINTR, -EAGAIN, 16384});
        ring.queue(read);
        drain(ring);
        const std::pair<uint64_t, uint32_t> rest{12288 + block, 16384 - block};
        CHECK(submitted() == List{{12288, 16384}, rest, rest, rest});
        CHECK(client.message(0) == "fine");
        CHECK(f.arrived(read));
        CHECK(ring.stats().resubmitted == 3);
    }
    SUBCASE("one byte less than all") {
        engine.script({16383, 16384});
        ring.queue(read);
        drain(ring);
        CHECK(submitted() == List{{12288, 16384}, {12288 + 16384 - block, block}});
        CHECK(f.arrived(read));
    }
    SUBCASE("nothing before the end is the end") {
        engine.script({4096, 0});
        ring.queue(read);
        drain(ring);
        CHECK(mentions(client.message(0), "ends early"));
        CHECK(mentions(client.message(0), "got 4096"));
    }
    SUBCASE("a storage error after a part") {
        engine.script({8192, 4096, -EIO});
        ring.queue(read);
        ring.queue(f.read(0, 1, client, 1));
        drain(ring);
        CHECK(mentions(client.message(0), "storage error; downloading again will not help"));
        CHECK(mentions(client.message(0), "read at offset 12288: wanted 16384 bytes, got 8192"));
        CHECK(client.message(1) == "fine");
    }
    SUBCASE("interrupted, refused, or stopped short without end") {
        for (const int64_t result : {-EINTR, -EAGAIN, 1}) {
            client.told.clear();
            engine.script(std::vector<int64_t>(1000, result));
            ring.queue(read);
            drain(ring);
            CHECK(client.message(0) != "fine");
            CHECK(ring.stats().resubmitted < 1000);
        }
    }
    SUBCASE("tries are counted without progress only") {
        std::vector<int64_t> script;
        for (int i = 0; i < 300; ++i) script.insert(script.end(), {-EINTR, -EAGAIN});
        for (size_t i = 0; i < script.size(); i += 150) {
            script.insert(script.begin() + static_cast<std::ptrdiff_t>(i),
                          static_cast<int64_t>(block));
        }
        engine.script(script);
        ring.queue(f.read(0, 32, client, 0));
        drain(ring);
        CHECK(client.message(0) == "fine");
    }
}

TEST_CASE("a short buffered read continues at the byte where it stopped") {
    Fixture f(1'000'003, Access::buffered);
    auto owned = std::make_unique<SimEngine>(1);
    SimEngine& engine = *owned;
    engine.script({5, 1, 16378});
    ReadRing ring(std::move(owned), 4);
    Recorder client;
    const Read read = f.read(3, 4, client, 0);
    ring.queue(read);
    drain(ring);
    REQUIRE(engine.submitted().size() == 3);
    CHECK(engine.submitted()[1].offset == 12288 + 5);
    CHECK(engine.submitted()[2].offset == 12288 + 6);
    CHECK(engine.submitted()[2].to == read.to + 6);
    CHECK(f.arrived(read));
}

TEST_CASE("random storage errors: either correct bytes or an error") {
    Fixture f;
    int failed = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
        CAPTURE(seed);
        const SimFaults faults{
            .short_read = 0.3, .again = 0.2, .eio = 0.1, .reorder = 0.5, .late = 0.3};
        ReadRing ring(std::make_unique<SimEngine>(seed, faults), 8);
        Recorder client;
        std::vector<Read> reads;
        std::memset(f.memory.data(), 0xee, f.memory.size());
        for (uint64_t tag = 0; tag < 60; ++tag) reads.push_back(f.read(tag * 4, 4, client, tag));
        for (const Read& read : reads) {
            while (ring.free() == 0) REQUIRE(ring.reap(true));
            ring.queue(read);
        }
        drain(ring);
        REQUIRE(client.told.size() == reads.size());
        for (const Read& read : reads) {
            const bool error = client.told.at(read.tag).has_value();
            failed += error;
            if (!error) CHECK(f.arrived(read));
        }
    }
    CHECK(failed > 100);
    CHECK(failed < 3000);
}

TEST_CASE("a bad spot fails the reads that touch it") {
    Fixture f;
    ReadRing ring(std::make_unique<SimEngine>(1, SimFaults{.bad_begin = 40'000, .bad_end = 40'512}),
                  8);
    Recorder client;
    for (uint64_t tag = 0; tag < 6; ++tag) ring.queue(f.read(tag * 4, 4, client, tag));
    drain(ring);
    for (uint64_t tag = 0; tag < 6; ++tag) {
        CHECK(client.told.at(tag).has_value() == (tag == 2));
    }
}

TEST_CASE("a broken engine breaks the ring permanently, and nothing hangs") {
    struct Broken final : RingEngine {
        bool at_submit;
        explicit Broken(bool at_submit) : at_submit(at_submit) {}
        const char* name() const override { return "broken"; }
        Result<void> add_file(int) override { return fail(Code::io, "no"); }
        Result<void> add_memory(std::span<std::byte>) override { return {}; }
        Result<void> submit(std::span<const Raw>) override {
            if (at_submit) return fail(Code::io, "gone");
            return {};
        }
        Result<size_t> reap(std::span<RawDone>, bool) override { return fail(Code::io, "gone"); }
    };
    Fixture f;
    for (const bool at_submit : {true, false}) {
        ReadRing ring(std::make_unique<Broken>(at_submit), 4);
        CHECK(mentions(ring.add_file(f.file).error().message, f.file.path().native()));
        Recorder client;
        ring.queue(f.read(0, 1, client, 0));
        CHECK(ring.reap(true).error().message == "gone");
        CHECK(ring.reap(false).error().message == "gone");
        CHECK(ring.submit().error().message == "gone");
        CHECK(client.told.empty());
    }
}

TEST_CASE("the requested depth is checked") {
    for (const uint32_t depth : {0u, 4097u, UINT32_MAX}) {
        for (const IoEngine engine : {IoEngine::automatic, IoEngine::uring, IoEngine::threads}) {
            const auto choice = make_ring_engine({.engine = engine, .depth = depth});
            REQUIRE(!choice);
            CHECK(choice.error().code == Code::usage);
        }
    }
    CHECK(make_ring_engine({.engine = IoEngine::threads, .depth = 4096}));
}

TEST_CASE("more files than the kernel's table holds") {
    Fixture f(8192);
    for (int i = 0; i < 100; ++i) f.folder.write(cat("f", i), random_bytes(4096, i));
    on_every_engine([&](const EngineMaker& make) {
        rlimit before{};
        REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
        const rlimit few{.rlim_cur = 60, .rlim_max = before.rlim_max};
        REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
        std::unique_ptr<RingEngine> engine = make(8, 2);
        REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
        std::vector<File> files;
        for (int i = 0; i < 100; ++i) {
            auto file = File::open(f.folder.path() / cat("f", i));
            REQUIRE(file);
            files.push_back(std::move(*file));
        }
        ReadRing ring(std::move(engine), 8);
        for (int round = 0; round < 2; ++round) {
            for (const File& file : files)
                REQUIRE(ring.add_file(file));  // adding a file twice is harmless
        }
        Recorder client;
        for (size_t i = 0; i < files.size(); ++i) {
            Read read = f.read(0, 1, client, i);
            read.file = &files[i];
            ring.queue(read);
            drain(ring);
            const std::string want = random_bytes(4096, i);
            REQUIRE(std::memcmp(read.to, want.data(), want.size()) == 0);
        }
    });
}

TEST_CASE("queueing more than the depth is a bug of the caller") {
    Fixture f;
    rlimit no_core{};
    const pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        close(2);
        signal(SIGABRT, SIG_DFL);
        Recorder client;
        ReadRing ring(std::make_unique<SimEngine>(1), 2);
        for (uint32_t i = 0; i < 3; ++i) ring.queue(f.read(i, 1, client, i));
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
}
