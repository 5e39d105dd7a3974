#include "tools/answer/session_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

Error refused(const fs::path& path) {
    auto file = SessionFile::open(path);
    REQUIRE(!file);
    return file.error();
}

bool mentions(const Error& error, std::string_view text) {
    return error.message.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a conversation grows from run to run") {
    const TempFolder folder;
    const fs::path path = folder / "talk";
    {
        auto file = SessionFile::open(path);
        REQUIRE(file);
        CHECK(file->messages().empty());
        REQUIRE(file->save({{Role::user, "a"}, {Role::assistant, "b", "c"}}));
    }
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    auto file = SessionFile::open(path);
    REQUIRE(file);
    REQUIRE(file->messages().size() == 2);
    CHECK(file->messages()[1].role == Role::assistant);
    CHECK(file->messages()[1].content == "b");
    CHECK(file->messages()[1].reasoning == "c");
}

TEST_CASE("a new conversation that was not saved leaves no file and an old one stays") {
    const TempFolder folder;
    CHECK(SessionFile::open(folder / "new"));
    CHECK(!fs::exists(folder / "new"));
    const auto old = folder.write("old", R"([{"role": "user", "content": "a"}])");
    CHECK(SessionFile::open(old)->messages().size() == 1);
    CHECK(read_file(old) == R"([{"role": "user", "content": "a"}])");
    const auto empty = folder.write("empty", "");
    CHECK(SessionFile::open(empty)->messages().empty());
    CHECK(fs::exists(empty));
}

TEST_CASE("a second run on the same file is refused until the first one ends") {
    const TempFolder folder;
    const fs::path path = folder / "talk";
    {
        auto first = SessionFile::open(path);
        REQUIRE(first);
        Error busy = refused(path);
        CHECK(busy.code == Code::io);
        CHECK(mentions(busy, "another run"));
        CHECK(fs::exists(path));
        REQUIRE(first->save({{Role::user, "a"}}));
        // Complete, so the next run may go on; the first one adds nothing more.
        CHECK(SessionFile::open(path)->messages().size() == 1);
    }
    CHECK(SessionFile::open(path)->messages().size() == 1);
    fs::create_symlink(path, folder / "link");
    auto linked = SessionFile::open(folder / "link");
    REQUIRE(linked);
    CHECK(mentions(refused(path), "another run"));
    REQUIRE(linked->save({{Role::user, "a"}, {Role::user, "b"}}));
    CHECK(fs::is_symlink(folder / "link"));
    CHECK(SessionFile::open(path)->messages().size() == 2);
}

TEST_CASE("a file that is no conversation is refused and stays as it is") {
    const TempFolder folder;
    for (const char* text : {"notes", "{}", "{\"messages\":[]}", "[{\"role\":\"user\"}]",
                             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}", "\xff\xfe"}) {
        CAPTURE(text);
        const auto path = folder.write("file", text);
        const Error error = refused(path);
        CHECK(mentions(error, "--session"));
        CHECK(mentions(error, "stays as it is"));
        CHECK(read_file(path) == text);
    }
    CHECK(refused(folder.path()).code == Code::usage);
    CHECK(refused(folder / "missing/talk").code == Code::usage);
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(refused(folder / "pipe").code == Code::usage);
}

}  // namespace sluice::test
