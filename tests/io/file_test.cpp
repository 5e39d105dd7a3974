#include "io/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "io/memory.h"
#include "io/mount.h"
#include "io/text.h"
#include "tests/support/messages.h"
#include "tests/support/paths.h"
#include "tests/support/seccomp.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

File opened(const std::filesystem::path& path, Access access = Access::direct) {
    auto file = File::open(path, access);
    REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
    return std::move(*file);
}

std::string read_of(const File& file, uint64_t offset, uint64_t length) {
    std::string bytes(length, '?');
    const auto read = file.read(offset, bytes.data(), length);
    REQUIRE_MESSAGE(read, (read ? "" : read.error().message));
    return bytes;
}

Error failure(const std::filesystem::path& path, Access access = Access::direct) {
    const auto file = File::open(path, access);
    REQUIRE(!file);
    CHECK(mentions(file.error().message, printable(path.native())));
    CHECK(!mentions(file.error().message, "\n"));
    return file.error();
}

// Whether direct reads work in the tests' folder.
bool direct_here() {
    const TempFolder folder = TempFolder::on_drive();
    return opened(folder.write("probe", "x")).access() == Access::direct;
}

}  // namespace

TEST_CASE("any range of a file, direct and buffered") {
    const TempFolder folder = TempFolder::on_drive();
    const std::string content = random_bytes(5'000'003, 1);
    const auto path = folder.write("data", content);
    for (const Access access : {Access::direct, Access::buffered}) {
        const File file = opened(path, access);
        CHECK(file.size() == content.size());
        CHECK(file.alignment() >= 512);
        for (const auto& [offset, length] :
             std::vector<std::pair<uint64_t, uint64_t>>{{0, content.size()},
                                                        {0, 0},
                                                        {content.size(), 0},
                                                        {0, 4096},
                                                        {4096, 8192},
                                                        {1, 1},
                                                        {511, 2},
                                                        {4095, 2},
                                                        {4096, 1},
                                                        {4999999, 4},
                                                        {content.size() - 1, 1},
                                                        {3, 4'500'000},
                                                        {4'194'303, 5}}) {
            CAPTURE(offset);
            CAPTURE(length);
            CHECK(read_of(file, offset, length) == content.substr(offset, length));
        }
    }
}

TEST_CASE("an aligned direct read needs no bounce buffer and may end inside a block") {
    const TempFolder folder = TempFolder::on_drive();
    const std::string content = random_bytes(100'000, 2);
    const File file = opened(folder.write("data", content));
    auto buffer = PageBuffer::create(65536, "a test");
    REQUIRE(buffer);
    REQUIRE(file.read(16384, buffer->data(), 65536));
    CHECK(std::memcmp(buffer->data(), content.data() + 16384, 65536) == 0);
}

TEST_CASE("a read past the end is refused without reading") {
    const TempFolder folder = TempFolder::on_drive();
    const File file = opened(folder.write("data", "0123456789"));
    char to[16];
    for (const auto& [offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{
             {0, 11}, {10, 1}, {11, 0}, {5, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, 2}}) {
        const auto read = file.read(offset, to, length);
        REQUIRE(!read);
        CHECK(read.error().code == Code::corrupt);
        CHECK(mentions(read.error().message, "the file has only 10"));
    }
}

TEST_CASE("a file truncated after it was opened is named, with the bytes wanted and got") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("data", random_bytes(100'000, 3));
    for (const Access access : {Access::direct, Access::buffered}) {
        folder.write("data", random_bytes(100'000, 3));
        const File file = opened(path, access);
        std::filesystem::resize_file(path, 50'000);
        std::string to(100'000, '\0');
        const auto read = file.read(0, to.data(), to.size());
        REQUIRE(!read);
        CHECK(read.error().code == Code::corrupt);
        CHECK(mentions(read.error().message, path.native()));
        CHECK(mentions(read.error().message, "ends early"));
        CHECK(mentions(read.error().message, "again, or restore it"));
        CHECK(mentions(read.error().message, "got 50000"));
    }
}

TEST_CASE("an empty file can be opened, and reads of zero bytes work") {
    const TempFolder folder = TempFolder::on_drive();
    const File file = opened(folder.write("empty", ""));
    CHECK(file.size() == 0);
    CHECK(read_of(file, 0, 0).empty());
}

TEST_CASE("a path that is not a readable file is named as what it is") {
    const TempFolder folder = TempFolder::on_drive();
    CHECK(failure(folder.path() / "absent").code == Code::not_found);
    CHECK(mentions(failure(folder.path()).message, "a folder"));
    const auto pipe = folder.path() / "pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(mentions(failure(pipe).message, "a pipe"));
    CHECK(mentions(failure("/dev/null").message, "a device"));
    const auto file = folder.write("file", "x");
    CHECK(mentions(failure(file / "below").message, "Not a directory"));
    std::filesystem::create_symlink(folder.path() / "blob", folder.path() / "link");
    CHECK(mentions(failure(folder.path() / "link").message, "a link to"));
    CHECK(failure(folder.path() / "link").code == Code::not_found);
    std::filesystem::create_symlink("loop", folder.path() / "loop");
    CHECK(mentions(failure(folder.path() / "loop").message, "ELOOP"));
    CHECK(mentions(failure(std::string("a\x1b[31m")).message, "\\x1b"));
    std::filesystem::create_symlink(file, folder.path() / "good");
    CHECK(opened(folder.path() / "good").size() == 1);
}

TEST_CASE("no permission and no descriptors left") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("secret", "x");
    const std::string text = in_child([&] {
        std::string out;
        if (getuid() == 0 &&
            (chmod(folder.path().c_str(), 0755) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) {
            return std::string("no child");
        }
        const rlimit none{.rlim_cur = 3, .rlim_max = 3};
        chmod(path.c_str(), 0);
        const auto forbidden = File::open(path);
        if (!forbidden) out += forbidden.error().message + "\n";
        setrlimit(RLIMIT_NOFILE, &none);
        const auto exhausted =
            File::open(std::string(test::models_folder) + "/dsv41-tiny/config.json");
        if (!exhausted) out += exhausted.error().message;
        return out;
    });
    // As root, the child cannot change the mode of the file, so that it stays readable.
    if (getuid() != 0) CHECK(mentions(text, "Permission denied"));
    CHECK(mentions(text, "ulimit -n"));
}

TEST_CASE("a file system that refuses direct reads, when opening or only when reading") {
    if (!direct_here()) return;
    const TempFolder folder = TempFolder::on_drive();
    const std::string content = random_bytes(100'000, 4);
    const auto path = folder.write("data", content);
    const uint32_t alignment = opened(path).alignment();
    const auto report = [&] {
        auto first = File::open(path);
        auto second = File::open(path);
        if (!first || !second) return std::string("not opened");
        std::string bytes(content.size() - 5, '\0');
        const bool read = first->read(5, bytes.data(), bytes.size()).has_value();
        std::string out = first->access() == Access::buffered ? "buffered " : "direct ";
        return out + (read && bytes == content.substr(5) ? "equal" : "different");
    };
    for (const bool at_open : {true, false}) {
        const BlockedCall open_call{SYS_openat, EINVAL,
                                    BlockedCall::Argument{2, O_RDONLY | O_CLOEXEC | O_DIRECT}};
        const BlockedCall read_call{SYS_pread64, EINVAL, BlockedCall::Argument{2, alignment}};
        const std::string text = in_child(
            [&] {
                if (!block_calls({at_open ? open_call : read_call}))
                    return std::string("no filter");
                return report();
            },
            true);
        CAPTURE(text);
        CHECK(mentions(text, "---\nbuffered equal"));
        const Mount mount = mount_of(path);
        CHECK(mentions(text, mount.point + " (" + mount.type + ") refuses direct reads"));
        CHECK(mentions(text, "EINVAL"));
        CHECK(text.find("refuses") == text.rfind("refuses"));  // two files, one line
    }
}

TEST_CASE("a drive that fails is named at once, not worked around") {
    if (!direct_here()) return;
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("data", random_bytes(100'000, 5));
    const std::string text = in_child([&] {
        auto file = File::open(path);
        if (!block_calls({{SYS_pread64, EIO}})) return std::string("no filter");
        char to[100];
        const auto read = file->read(12345, to, sizeof to);
        const auto again = File::open(path);
        return cat(read ? "read" : read.error().message, "\n",
                   again ? "opened" : again.error().message);
    });
    CHECK(mentions(text, path.native() + ": read at offset "));
    CHECK(mentions(text, "storage error; downloading again will not help, see dmesg\n"));
    CHECK(!mentions(text, "opened"));
}

TEST_CASE("endless EINTR is an error") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("data", "0123456789");
    const std::string text = in_child([&] {
        auto file = File::open(path);
        if (!block_calls({{SYS_pread64, EINTR}})) return std::string("no filter");
        char to[10];
        const auto read = file->read(0, to, sizeof to);
        return read ? "read" : read.error().message;
    });
    CHECK(mentions(text, "EINTR"));
}

#ifndef __SANITIZE_THREAD__  // its record of 2 GiB of writes takes 8 GiB
TEST_CASE("more than 2 GiB in one read") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("sparse", "");
    const uint64_t size = (uint64_t{2} << 30) + 1000;
    std::filesystem::resize_file(path, size);
    {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(size - 16));
        file << "the last 16bytes";
    }
    // The destination is one window of memory, mapped many times, so that the test needs no 2 GiB.
    const int page = memfd_create("page", 0);
    constexpr uint64_t window = 64u << 20;
    REQUIRE(ftruncate(page, window) == 0);
    const uint64_t mapped = round_up(size, window);
    void* to = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(to != MAP_FAILED);
    for (uint64_t at = 0; at < mapped; at += window) {
        REQUIRE(mmap(static_cast<char*>(to) + at, window, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, page, 0) != MAP_FAILED);
    }
    const File file = opened(path);
    REQUIRE(file.read(0, to, size));
    CHECK(std::string(static_cast<char*>(to) + size - 16, 16) == "the last 16bytes");
    munmap(to, mapped);
    close(page);
}
#endif

TEST_CASE("identity distinguishes a changed file from an unchanged one") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("a", "one");
    const FileIdentity before = opened(path).identity();
    CHECK(opened(path, Access::buffered).identity() == before);
    CHECK(opened(folder.write("b", "one")).identity() != before);
    const File open_before = opened(path);
    CHECK(open_before.unchanged());
    folder.write("a", "three");
    CHECK(opened(path).identity() != before);
    const auto changed = open_before.unchanged();
    REQUIRE(!changed);
    CHECK(changed.error().code == Code::corrupt);
    CHECK(changed.error().message.starts_with(path.string() + ": the file changed"));
}

TEST_CASE("a changed inode is reported, unless a new link or name explains it") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("a", "one"), moved = path.parent_path() / "moved";
    const auto time = std::filesystem::last_write_time(path);
    const File file = opened(path);
    const auto untouched = [&] {
        const auto same = file.unchanged();
        REQUIRE(same);
        std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the resolution of file times
        return *same;
    };
    CHECK(untouched());
    std::filesystem::create_hard_link(path, path.parent_path() / "b");
    CHECK(untouched());
    std::filesystem::rename(path, moved);
    CHECK(untouched());
    std::filesystem::rename(moved, path);
    CHECK(untouched());
    folder.write("a", "two");
    std::filesystem::last_write_time(path, time);
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    CHECK(!untouched());
    CHECK(untouched());  // reported once
}

TEST_CASE("a moved file can still be read, and its source owns nothing") {
    const TempFolder folder = TempFolder::on_drive();
    File first = opened(folder.write("data", "0123456789"));
    File second = std::move(first);
    CHECK(first.fd() == -1);
    CHECK(read_of(second, 3, 4) == "3456");
    second = opened(folder.write("other", "abc"));
    CHECK(read_of(second, 0, 3) == "abc");
    CHECK(second.path().filename() == "other");
}

TEST_CASE("read_text") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("config.json", "{}\n");
    CHECK(*read_text(path, 3) == "{}\n");
    CHECK(read_text(folder.write("empty", ""), 0)->empty());
    const auto large = read_text(path, 2);
    REQUIRE(!large);
    CHECK(mentions(large.error().message, "config.json"));
    CHECK(read_text(folder.path() / "absent", 10).error().code == Code::not_found);
}

TEST_CASE("the mount a path is on") {
    const std::string_view table =
        "22 1 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 0:25 / /mnt rw - tmpfs tmpfs rw\n"
        "31 30 0:26 / /mnt/a\\040b rw shared:7 master:1 - fuse.sshfs host rw\n"
        "32 22 0:27 / /mnt rw - btrfs /dev/sdb rw\n"
        "short line\n";
    CHECK(mount_of("/home/x", table).point == "/");
    CHECK(mount_of("/home/x", table).type == "ext4");
    CHECK(mount_of("/mntx", table).point == "/");
    CHECK(mount_of("/mnt/x", table).type == "btrfs");  // the later mount hides the earlier
    CHECK(mount_of("/mnt/a b/x", table).type == "fuse.sshfs");
    CHECK(mount_of("/mnt/a b/x", table).point == "/mnt/a b");
    CHECK(mount_of("/x", std::string_view()).type == "?");
    CHECK(mount_of("/proc/self").type == "proc");
}
