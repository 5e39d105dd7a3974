#include "io/output_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool refused(const fs::path& path, const char* why) {
    auto file = output_file("--profile", path, "HEAD");
    if (file) return false;
    CAPTURE(file.error().message);
    CHECK(file.error().code == Code::usage);
    CHECK(file.error().message.starts_with("--profile "));
    return file.error().message.find(why) != std::string::npos;
}

}  // namespace

TEST_CASE("an output file may be new, empty or of its kind, nothing else is overwritten") {
    TempFolder dir;
    const fs::path file = dir / "t.json";
    auto fresh = output_file("--profile", file, "HEAD");
    REQUIRE(fresh);
    CHECK(*fresh == file);
    for (const char* content : {"", "HEAD", "HEAD and more"}) {
        write_file(file, content);
        CHECK(output_file("--profile", file, "HEAD"));
    }
    for (const char* content : {"H", "HEA", "{\"model\":1}", " HEAD"}) {
        CAPTURE(content);
        write_file(file, content);
        CHECK(refused(file, "another kind of file"));
    }
    CHECK(refused(dir.path(), "is a folder"));
    CHECK(refused(dir / "missing" / "t.json", "its folder does not exist"));
    CHECK(refused("/dev/full", "is not a regular file"));
    const fs::path pipe = dir / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(refused(pipe, "is not a regular file"));
}

TEST_CASE("a growing file has its final name once kept, and is removed otherwise") {
    TempFolder dir;
    const fs::path path = dir / "grown";
    write_file(path, "before");
    const auto files = [&] {
        return std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator());
    };
    {
        auto file = GrowingFile::create(path, 0644);
        REQUIRE(file);
        REQUIRE(file->append("one"));
        GrowingFile moved = std::move(*file);
        CHECK(moved.append(" two"));
        CHECK(files() == 2);
    }
    CHECK(files() == 1);
    CHECK(read_file(path) == "before");
    {
        auto file = GrowingFile::create(path, 0644);
        REQUIRE(file);
        REQUIRE(file->append("one"));
        CHECK(file->keep());
        CHECK(file->keep());
    }
    CHECK(files() == 1);
    CHECK(read_file(path) == "one");
    CHECK(GrowingFile::create(dir / "no" / "folder", 0644).error().code == Code::io);
}

TEST_CASE("an output file: links are followed, not replaced") {
    TempFolder dir;
    write_file(dir / "model", "weights");
    fs::create_symlink("model", dir / "to-model");
    CHECK(refused(dir / "to-model", "another kind of file"));
    fs::create_symlink(dir / "new", dir / "to-new");
    auto target = output_file("--profile", dir / "to-new", "HEAD");
    REQUIRE(target);
    CHECK(*target == dir / "new");
    fs::create_symlink("/dev/null", dir / "to-null");
    CHECK(refused(dir / "to-null", "is not a regular file"));
    fs::create_symlink("loop", dir / "loop");
    CHECK(refused(dir / "loop", "link"));
}

}  // namespace sluice
