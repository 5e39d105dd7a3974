#include "engine/prompt_cache/disk_snapshots.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include "engine/prompt_cache/snapshot_writer.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kind = "0123456789abcdef";

SnapshotKey key(int32_t tokens) {
    return {tokens, static_cast<uint64_t>(tokens) * 77};
}

std::vector<SnapshotKey> sorted(std::vector<SnapshotKey> keys) {
    std::ranges::sort(keys);
    return keys;
}

mode_t mode_of(const fs::path& path) {
    struct stat status {};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
}

// Last used so many seconds ago.
void age(const fs::path& path, std::time_t seconds) {
    const timespec then{std::time(nullptr) - seconds, 0};
    const timespec both[2] = {then, then};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), both, 0) == 0);
}

}  // namespace

TEST_CASE("snapshots are files of the user's own in a folder per kind") {
    const TempFolder folder;
    const DiskSnapshots disk(folder / "made/prompts", kind, 1000);
    CHECK(disk.keys().empty());
    CHECK(!fs::exists(folder / "made"));
    REQUIRE(disk.write(key(3), SnapshotBytes(10)));
    REQUIRE(disk.write(key(8), SnapshotBytes(20)));
    CHECK(sorted(disk.keys()) == std::vector{key(3), key(8)});
    CHECK(disk.path(key(3)) == folder / "made/prompts" / kind / file_name(key(3)));
    CHECK(mode_of(disk.path(key(3))) == 0600);
    CHECK(mode_of(folder / "made/prompts") == 0700);
    CHECK(mode_of(folder / "made/prompts" / kind) == 0700);
    const DiskSnapshots other(folder / "made/prompts", "fedcba9876543210", 1000);
    CHECK(other.keys().empty());
    CHECK(disk.use(key(3)));
    CHECK(!disk.use(key(4)));
    disk.remove(key(3));
    CHECK(disk.keys() == std::vector{key(8)});
}

TEST_CASE("over the limit the snapshots used longest ago go, of whatever kind") {
    const TempFolder folder;
    const DiskSnapshots one(folder.path() / "p", kind, 100);
    const DiskSnapshots two(folder.path() / "p", "fedcba9876543210", 100);
    for (int32_t i = 1; i <= 3; ++i) REQUIRE(one.write(key(i), SnapshotBytes(30)));
    for (int32_t i = 1; i <= 3; ++i) age(one.path(key(i)), 100 - i);
    CHECK(one.use(key(1)));
    REQUIRE(two.write(key(9), SnapshotBytes(40)));
    CHECK(sorted(one.keys()) == std::vector{key(1), key(3)});
    CHECK(two.keys() == std::vector{key(9)});
    REQUIRE(two.write(key(10), SnapshotBytes(100)));
    CHECK(one.keys().empty());
    CHECK(two.keys() == std::vector{key(10)});
    CHECK(!fs::exists(folder.path() / "p" / kind));  // empty
    CHECK(!two.write(key(11), SnapshotBytes(101)));
    CHECK(two.keys() == std::vector{key(10)});
    REQUIRE(one.write(key(1), SnapshotBytes(5)));
    CHECK(one.keys() == std::vector{key(1)});
}

TEST_CASE("files of other names and unfinished files of live processes stay") {
    const TempFolder folder;
    const DiskSnapshots disk(folder.path(), kind, 50);
    REQUIRE(disk.write(key(1), SnapshotBytes(10)));
    const fs::path own = folder / kind;
    const std::string unfinished = file_name(key(2)) + ".AbC123";
    write_file(own / unfinished, "half");
    write_file(own / (file_name(key(3)) + ".XyZ789"), "half");
    age(own / (file_name(key(3)) + ".XyZ789"), 2 * 3600);
    write_file(own / "notes", "mine");
    age(own / "notes", 9999999);
    fs::create_directory(folder / "photos");
    write_file(folder / "photos" / file_name(key(4)), "mine");
    age(folder / "photos" / file_name(key(4)), 9999999);
    REQUIRE(disk.write(key(5), SnapshotBytes(45)));
    CHECK(disk.keys() == std::vector{key(5)});
    CHECK(fs::exists(own / unfinished));
    CHECK(!fs::exists(own / (file_name(key(3)) + ".XyZ789")));
    CHECK(fs::exists(own / "notes"));
    CHECK(fs::exists(folder / "photos" / file_name(key(4))));
}

TEST_CASE("a folder that others may write to is not used") {
    const TempFolder folder;
    const DiskSnapshots disk(folder / "p", kind, 1000);
    REQUIRE(disk.write(key(1), SnapshotBytes(10)));
    fs::permissions(folder / "p", fs::perms::all);
    CHECK(disk.keys().empty());
    CHECK(!disk.write(key(2), SnapshotBytes(10)));
    fs::permissions(folder / "p", fs::perms::owner_all);
    CHECK(disk.keys() == std::vector{key(1)});
    write_file(folder / "file", "");
    CHECK(!DiskSnapshots(folder / "file", kind, 1000).write(key(1), SnapshotBytes(10)));
    CHECK(!DiskSnapshots("/proc/sluice", kind, 1000).write(key(1), SnapshotBytes(10)));
    CHECK(DiskSnapshots("/proc/sluice", kind, 1000).keys().empty());
}

TEST_CASE("a full drive leaves what was there and nothing unfinished") {
    const TempFolder folder;
    const DiskSnapshots disk(folder.path(), kind, 1 << 20);
    REQUIRE(disk.write(key(1), SnapshotBytes(100)));
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit all{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &all) == 0);
    const rlimit little{1000, all.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
    CHECK(!disk.write(key(2), SnapshotBytes(2000)));
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &all) == 0);
    std::signal(SIGXFSZ, before);
    const fs::directory_iterator entries(folder / kind);
    CHECK(std::distance(begin(entries), end(entries)) == 1);
    CHECK(disk.keys() == std::vector{key(1)});
    CHECK(disk.write(key(2), SnapshotBytes(2000)));  // the drive has room again
}

TEST_CASE("the writer writes everything that it accepted before it ends") {
    const TempFolder folder;
    const DiskSnapshots disk(folder.path(), kind, 1 << 20);
    size_t accepted = 0;
    {
        SnapshotWriter writer(disk);
        for (int32_t i = 1; i <= 40; ++i) {
            accepted +=
                writer.write(key(i), std::make_shared<const SnapshotBytes>(size_t(i) * 100));
        }
        CHECK(accepted >= SnapshotWriter::queue_max);
        writer.flush();
        CHECK(writer.written() == accepted);
        CHECK(disk.keys().size() == accepted);
        CHECK(writer.write(key(50), std::make_shared<const SnapshotBytes>(10)));
    }
    CHECK(disk.keys().size() == accepted + 1);
    CHECK(fs::file_size(disk.path(key(1))) == 100);
}

}  // namespace sluice::test
