// Keys as terminals send them, what they do to a line, and how the line is drawn.
#include <doctest/doctest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tools/terminal/edit_line.h"
#include "tools/terminal/history.h"
#include "tools/terminal/key_reader.h"
#include "tools/terminal/line_view.h"
#include "tools/terminal/show.h"

using namespace sluice;

namespace {

std::vector<KeyPress> keys_of(const std::string& bytes) {
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    REQUIRE(::write(pipe[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(pipe[1]);
    KeyInput input(pipe[0]);
    KeyReader reader(input);
    std::vector<KeyPress> out;
    for (KeyPress press = reader.next(); press.key != Key::end; press = reader.next())
        out.push_back(press);
    ::close(pipe[0]);
    return out;
}

void check_key(const std::string& bytes, Key key) {
    CAPTURE(bytes);
    const auto keys = keys_of(bytes + "x");
    REQUIRE(keys.size() == 2);
    CHECK(keys[0].key == key);
    CHECK(keys[1].text == "x");
}

std::string drawn(const EditedLine& line, size_t columns, size_t rows = 24) {
    LineView view(false);
    view.begin();
    return view.draw("> ", line, {columns, rows});
}

}  // namespace

TEST_CASE("keys: every form of a key is that key") {
    for (const char* home : {"\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~", "\x01"})
        check_key(home, Key::line_start);
    for (const char* end : {"\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~", "\x05"})
        check_key(end, Key::line_end);
    for (const char* word : {"\x1b[1;5D", "\x1b[1;3D",
                             "\x1b"
                             "b",
                             "\x1bO5D", "\x1b\x1b[D", "\x1bOd"})
        check_key(word, Key::word_left);
    for (const char* word : {"\x1b[1;5C", "\x1b[1;3C",
                             "\x1b"
                             "f",
                             "\x1b\x1b[C"})
        check_key(word, Key::word_right);
    for (const char* line : {"\x1b\r", "\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;3u"})
        check_key(line, Key::new_line);
    check_key("\x1b[3~", Key::erase_right);
    check_key("\x1b[3;5~", Key::erase_word_right);
    check_key("\x1b\x7f", Key::erase_word_left);
    check_key("\x1b[A", Key::up);
    check_key("\x1bOB", Key::down);
    check_key("\x1b[97;5u", Key::line_start);
}

TEST_CASE("keys: what means nothing is taken whole") {
    for (const char* bytes :
         {"\x1b[15~", "\x1b[5~", "\x1b[6~", "\x1bOP", "\x1b[[A", "\x1b[<0;10;10M", "\x1b[<35;1;1m",
          "\x1b[M !!", "\x1b[?1;2c", "\x1b]11;rgb:0/0/0\x07", "\x1b]0;t\x1b\\", "\x1b[I", "\x1b[O",
          "\x1b[57441u", "\x1b[1;2R", "\x1bP1$r\x1b\\", "\x1b[27u"})
        check_key(bytes, Key::nothing);
}

TEST_CASE("editing: words, lines, wide characters and marks") {
    EditedLine line;
    line.insert("one two-three");
    line.word_left();
    line.erase_word_left();
    CHECK(line.text() == "one three");
    line.put_back();
    CHECK(line.text() == "one two-three");
    line.assign("a\nbcd\ne");
    CHECK(line.line_up());
    line.line_end();
    line.erase_to_line_start();
    CHECK(line.text() == "a\n\ne");
    CHECK(!line.typed());
    line.assign("e\xcc\x81x");  // e and a combining acute accent
    CHECK(line.units().size() == 2);
    line.assign("日本");
    CHECK(line.units()[0].width == 2);
    line.erase_left();
    CHECK(line.text() == "日");
    line.assign("\xfc");
    CHECK(line.text() == "\xfc");
}

TEST_CASE("editing: a paste is one unit") {
    EditedLine line;
    line.insert("see ");
    line.insert_paste("one\ntwo\nthree\n");
    CHECK(line.units().back().shown == "[pasted 1: 4 lines, 14 bytes]");
    CHECK(line.text() == "see one\ntwo\nthree\n");
    line.erase_left();
    CHECK(line.text() == "see ");
    line.assign("");
    line.insert_paste("/etc");
    CHECK(line.text() == "/etc");
    CHECK(!line.typed());
    line.assign("/load ");
    line.insert_paste("x.json");
    CHECK(line.typed());
}

TEST_CASE("drawing: rows are narrower than the screen, and the cursor is where the text says") {
    EditedLine line;
    line.insert("abcdefgh");
    CHECK(drawn(line, 80) == "\r\x1b[J> abcdefgh\r\x1b[10C");
    CHECK(drawn(line, 8) == "\r\x1b[J> abcde\r\nfgh\r\x1b[3C");
    line.line_start();
    CHECK(drawn(line, 8) == "\r\x1b[J> abcde\r\nfgh\r\x1b[1A\x1b[2C");
    line.assign("ab日本");
    CHECK(drawn(line, 8) == "\r\x1b[J> ab日\r\n本\r\x1b[2C");
    line.assign("a\nb\nc\nd");
    CHECK(drawn(line, 80, 3) == "\r\x1b[Jc\r\nd\r\x1b[1C");
    LineView plain(true);
    plain.begin();
    line.assign("abcdefghijkl");
    CHECK(plain.draw("> ", line, {10, 24}) == "\r> ghijkl\r> ghijkl");
}

TEST_CASE("history: several processes add to one file, and old files are read") {
    TempFolder folder;
    const std::string path = folder / "history";
    write_file(path, "_HiStOrY_V2_\nan\\040old\\040line\n");
    History first(path), second(path);
    REQUIRE(first.size() == 1);
    CHECK(first.at(0) == "an old line");
    first.add("from one");
    second.add("two\nlines \\ and \t");
    History both(path);
    REQUIRE(both.size() == 3);
    CHECK(both.at(1) == "from one");
    CHECK(both.at(2) == "two\nlines \\ and \t");
}

TEST_CASE("visible: no byte of an answer controls the terminal") {
    CHECK(visible("\x9b"
                  "31m") == "\\x9b31m");
    CHECK(visible("\xc2\x9b"
                  "31m") == "\\u009b31m");
    CHECK(visible("\xc2\x9d"
                  "0;t\xc2\x9c") == "\\u009d0;t\\u009c");
    CHECK(visible("\x1b]0;t\x07") == "^[]0;t^G");
    CHECK(visible("日本 ü\n\t") == "日本 ü\n\t");
}

TEST_CASE("wrapped: between words, and as it is where it fits") {
    CHECK(wrapped("one two three", 80) == "one two three");
    CHECK(wrapped("one two three", 9) == "one two\n  three");
    CHECK(wrapped("/stats    show what the last answer did", 28) ==
          "/stats    show what the\n          last answer did");
    CHECK(wrapped("abcdefghijklmnop", 10) == "abcdefghijklmnop");
}
