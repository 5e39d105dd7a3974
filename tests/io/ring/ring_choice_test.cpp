// Which engine is chosen if io_uring is forbidden, and the reason that is given.
#include <doctest/doctest.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "io/memory.h"
#include "io/ring/ring.h"
#include "io/text.h"
#include "tests/support/messages.h"
#include "tests/support/seccomp.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

bool uring_here() {
    return make_uring_engine({.depth = 1}).has_value();
}

struct Told : ReadClient {
    std::string text = "never";
    void read_done(uint64_t, std::optional<Error> error) override {
        text = error ? error->message : "fine";
    }
};

// Reads a page of `path` through `ring` and says whether it matches the file.
std::string read_through(ReadRing& ring, const File& file, std::byte* to, char want) {
    Told client;
    ring.queue({.file = &file,
                .offset = 0,
                .to = to,
                .length = page_size,
                .needed = page_size,
                .client = &client,
                .tag = 0});
    while (ring.in_flight() > 0) {
        if (const auto reaped = ring.reap(true); !reaped) return reaped.error().message;
    }
    const bool equal = to[0] == std::byte(want) && to[page_size - 1] == std::byte(want);
    return client.text == "fine" && !equal ? "different" : client.text;
}

// "ENGINE|cause|outcome of a read" with these calls blocked.
std::string choose(const std::vector<BlockedCall>& calls, IoEngine engine,
                   const std::filesystem::path& path) {
    return in_child([&] {
        if (!block_calls(calls)) return std::string("no filter");
        auto choice = make_ring_engine({.engine = engine, .depth = 8});
        if (!choice) return "error|" + choice.error().message;
        const auto file = File::open(path);
        auto memory = PageBuffer::create(page_size, "a test");
        ReadRing ring(std::move(choice->engine), 8);
        const bool added = ring.add_file(*file) && ring.add_memory(memory->span());
        return cat(ring.engine_name(), "|", choice->cause, "|", added ? "added " : "not added ",
                   read_through(ring, *file, memory->data(), 'x'));
    });
}

}  // namespace

TEST_CASE("if a sandbox forbids any call of io_uring, threads are used and the cause is given") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("shard", std::string(page_size, 'x'));
    struct Call {
        uint32_t number;
        const char* name;
    };
    for (const Call call :
         {Call{SYS_io_uring_setup, "io_uring_setup"}, Call{SYS_io_uring_enter, "io_uring_enter"},
          Call{SYS_io_uring_register, "io_uring_register"}}) {
        for (const uint32_t error : {EPERM, EACCES, ENOSYS}) {
            CAPTURE(call.name);
            CAPTURE(error);
            const std::string text = choose({{call.number, error}}, IoEngine::automatic, path);
            CAPTURE(text);
            CHECK(text.starts_with("threads|io_uring cannot be used: "));
            CHECK(text.ends_with("|added fine"));
            if (uring_here()) {
                CHECK(mentions(text, call.name));
                CHECK(mentions(text, "seccomp filter"));
                CHECK(mentions(text, errno_text(static_cast<int>(error))));
            }
            const std::string forced = choose({{call.number, error}}, IoEngine::uring, path);
            CHECK(forced.starts_with("error|io_uring cannot be used: "));
            const std::string threads = choose({{call.number, error}}, IoEngine::threads, path);
            CHECK(threads == "threads||added fine");
        }
    }
}

TEST_CASE("an old kernel, or one short of memory, is named as the cause") {
    if (!uring_here()) return;
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("shard", std::string(page_size, 'x'));
    const auto with = [&](uint32_t error) {
        return choose({{SYS_io_uring_setup, error}}, IoEngine::automatic, path);
    };
    CHECK(mentions(with(EINVAL), "is too old"));
    CHECK(mentions(with(ENOMEM), "ulimit -l"));
    CHECK(mentions(with(EMFILE), "ulimit -n"));
    CHECK(mentions(with(EXDEV), ": unknown reason"));
    for (const uint32_t error : {EINVAL, ENOMEM, EMFILE, EXDEV}) {
        CHECK(with(error).starts_with("threads|"));
    }
}

TEST_CASE("io_uring works without the newer flags and tables of kernels") {
    if (!uring_here()) return;
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("shard", std::string(page_size, 'x'));
    // As before 5.19: there are no tables to fill one by one.
    CHECK(choose({{SYS_io_uring_register, EINVAL}}, IoEngine::uring, path) == "uring||added fine");
}

TEST_CASE("automatic uses io_uring if it works, and gives no cause") {
    if (!uring_here()) return;
    const auto choice = make_ring_engine({});
    REQUIRE(choice);
    CHECK(std::string(choice->engine->name()) == "uring");
    CHECK(choice->cause.empty());
}

TEST_CASE("buffers beyond RLIMIT_MEMLOCK: one line that says what to do, and reads continue") {
    if (!uring_here()) return;
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("shard", std::string(page_size, 'x'));
    for (const rlim_t limit : {rlim_t{0}, rlim_t{64} << 10, rlim_t{8} << 20}) {
        CAPTURE(limit);
        const std::string text = in_child(
            [&]() -> std::string {
                const auto file = File::open(path);
                const rlimit locked{.rlim_cur = limit, .rlim_max = limit};
                if (setrlimit(RLIMIT_MEMLOCK, &locked) != 0) return "no limit";
                // Root is not limited.
                if (getuid() == 0 && (setgroups(0, nullptr) != 0 || setuid(65534) != 0)) {
                    return "no other user";
                }
                auto choice = make_ring_engine({.depth = 8});
                if (!choice) return choice.error().message;
                auto memory = PageBuffer::create(size_t{32} << 20, "a test");
                ReadRing ring(std::move(choice->engine), 8);
                if (!ring.add_file(*file)) return "file not added";
                if (!ring.add_memory(memory->span().first(memory->size() / 2)) ||
                    !ring.add_memory(memory->span().last(memory->size() / 2))) {
                    return "memory not added";
                }
                return cat(choice->cause, "|", read_through(ring, *file, memory->data(), 'x'));
            },
            true);
        CAPTURE(text);
        CHECK(text.ends_with("|fine"));
        // Some kernels count the ring itself as locked memory, and then refuse it.
        if (mentions(text, "some kernels count")) {
            CHECK(limit < 8u << 20);
            continue;
        }
        CHECK(mentions(text, "16 MiB more needed, RLIMIT_MEMLOCK is " + size_text(limit)));
        CHECK(mentions(text, "ulimit -l"));
        CHECK(text.find("registered") == text.rfind("registered"));
    }
}

TEST_CASE("reads into registered memory work, and across two registrations, too") {
    if (!uring_here()) return;
    const TempFolder folder = TempFolder::on_drive();
    const std::string content = random_bytes(16 * page_size, 1);
    auto file = File::open(folder.write("shard", content));
    REQUIRE(file);
    auto memory = PageBuffer::create(32 * page_size, "a test");
    REQUIRE(memory);
    ReadRing ring(std::move(*make_uring_engine({.depth = 8})), 8);
    REQUIRE(ring.add_file(*file));
    REQUIRE(ring.add_memory(memory->span().first(8 * page_size)));
    REQUIRE(ring.add_memory(memory->span().subspan(8 * page_size, 8 * page_size)));
    for (const size_t at : {0, 4, 8, 12, 16}) {  // inside, across, inside, across the end, outside
        Told client;
        std::byte* to = memory->data() + at * page_size;
        ring.queue({.file = &*file,
                    .offset = 0,
                    .to = to,
                    .length = 8 * page_size,
                    .needed = 8 * page_size,
                    .client = &client,
                    .tag = 0});
        while (ring.in_flight() > 0) REQUIRE(ring.reap(true));
        CHECK(client.text == "fine");
        CHECK(std::memcmp(to, content.data(), 8 * page_size) == 0);
    }
}
