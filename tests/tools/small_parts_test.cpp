// Numbers, exit codes, loop guard, JSON text, standard output.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>

#include "io/json.h"
#include "io/output_file.h"
#include "tests/support/temp_folder.h"
#include "tools/answer/json_writer.h"
#include "tools/answer/loop_guard.h"
#include "tools/answer/messages.h"
#include "tools/options/numbers.h"
#include "tools/options/user_text.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/key_input.h"
#include "tools/terminal/output.h"
#include "tools/terminal/terminal.h"

using namespace sluice;

TEST_CASE("whole numbers are accepted, or refused with source, text and range") {
    CHECK(parse_integer("-n", "42", 1, 100).value() == 42);
    CHECK(parse_integer("-n", "+42", 1, 100).value() == 42);
    CHECK(parse_integer("-s", "-1", -1, 100).value() == -1);
    CHECK(parse_integer("-s", "9223372036854775807", 0, INT64_MAX).value() == INT64_MAX);
    for (const char* text : {"", "+", "-", "4 ", " 4", "4x", "1.5", "1e3", "0x10", "nan", "101",
                             "0", "-3", "9223372036854775808", "+-4"}) {
        CAPTURE(text);
        auto value = parse_integer("--predict", text, 1, 100);
        REQUIRE_FALSE(value);
        CHECK(value.error().code == Code::usage);
        CHECK(value.error().message.find("--predict") == 0);
        CHECK(value.error().message.find("from 1 to 100") != std::string::npos);
    }
}

TEST_CASE("real numbers: finite, in range, ends included or not") {
    RealRange nucleus{0, 1, true, false};
    CHECK(nucleus.text() == "(0, 1]");
    CHECK(parse_real("--top-p", "1", nucleus).value() == 1.0);
    CHECK(parse_real("--top-p", "1e-30", nucleus).value() == 1e-30);
    for (const char* text : {"0", "1.1", "-1", "nan", "NaN", "inf", "-inf", "", "0.5x", "0,5",
                             "1e999", "null", "\"0.7\""}) {
        CAPTURE(text);
        auto value = parse_real("--top-p", text, nucleus);
        REQUIRE_FALSE(value);
        CHECK(value.error().message.find("(0, 1]") != std::string::npos);
    }
    RealRange temperature{0, std::numeric_limits<double>::infinity(), false, true};
    CHECK(temperature.text() == "[0, infinity)");
    CHECK(parse_real("--temp", "-0.0", temperature).has_value());
    CHECK(parse_real("--temp", "1e30", temperature).value() == 1e30);
    CHECK_FALSE(parse_real("--temp", "inf", temperature));
}

TEST_CASE("every error code has its exit code") {
    CHECK(exit_code(Code::mismatch) == 1);
    CHECK(exit_code(Code::usage) == 2);
    CHECK(exit_code(Code::not_found) == 3);
    CHECK(exit_code(Code::corrupt) == 3);
    CHECK(exit_code(Code::unsupported) == 3);
    CHECK(exit_code(Code::no_memory) == 4);
    CHECK(exit_code(Code::device) == 4);
    CHECK(exit_code(Code::io) == 5);
    CHECK(exit_code(Code::numerical) == 6);
    CHECK(exit_code(Code::interrupted) == 130);
    CHECK(exit_terminated == 128 + SIGTERM);
    CHECK(exit_hung_up == 128 + SIGHUP);
}

namespace {

// Tokens of a repeated cycle until the guard stops it; 0: not within `limit` tokens.
int32_t stops_after(int32_t guard_tokens, int32_t cycle, int32_t limit) {
    LoopGuard guard(guard_tokens);
    for (int32_t i = 0; i < limit; ++i) {
        if (guard.push(i % cycle)) return i + 1;
    }
    return 0;
}

}  // namespace

TEST_CASE("the loop guard stops cycles after the documented count") {
    CHECK(stops_after(256, 1, 2000) == 256);
    CHECK(stops_after(256, 7, 2000) == 256);
    CHECK(stops_after(256, 60, 2000) == 256);
    CHECK(stops_after(256, 64, 2000) == 256);
    CHECK(stops_after(256, 65, 2000) == 0);  // less than four times in 256 tokens
    CHECK(stops_after(0, 1, 2000) == 0);     // off
}

TEST_CASE("the loop guard allows ordinary repetition") {
    LoopGuard guard(256);
    for (int i = 0; i < 50; ++i) CHECK_FALSE(guard.push(5));  // "ha" fifty times
    for (int row = 0; row < 100; ++row) {                     // a table: one cell differs
        for (int column = 0; column < 9; ++column) CHECK_FALSE(guard.push(column));
        CHECK_FALSE(guard.push(100 + row));
    }
}

TEST_CASE("JSON text: commas, escapes, non-finite numbers") {
    JsonWriter json;
    json.begin_object().member("a", "say \"hi\"\n\x01\\").member("b", true).key("c").begin_array();
    json.value(1).value(uint64_t{18446744073709551615u}).value(0.5);
    json.value(std::nan("")).value(HUGE_VAL).end_array().key("d").begin_object().end_object();
    json.member("e", std::string("caf\xc3\xa9 \xff")).end_object();
    auto parsed = Json::parse(json.text());
    REQUIRE(parsed);
    CHECK((*parsed)["a"].string().value() == "say \"hi\"\n\x01\\");
    CHECK((*parsed)["b"].boolean().value());
    CHECK((*parsed)["c"].size() == 5);
    CHECK((*parsed)["c"].at(2).number().value() == 0.5);
    CHECK((*parsed)["c"].at(3).is_null());
    CHECK((*parsed)["c"].at(4).is_null());
    CHECK((*parsed)["d"].is_object());
    CHECK((*parsed)["e"].string().value() == "caf\xc3\xa9 \xef\xbf\xbd");
    CHECK(json.text().find(",,") == std::string::npos);
    CHECK(json.text().find("18446744073709551615") != std::string::npos);
}

TEST_CASE("standard output: a reader that left is not an error, a full drive is") {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    Output pipe(ends[1]);
    CHECK(pipe.write("x"));
    CHECK_FALSE(pipe.reader_gone());
    ::close(ends[0]);
    CHECK(pipe.reader_gone());  // noticed without writing
    CHECK(pipe.write("more"));
    ::close(ends[1]);

    int full = ::open("/dev/full", O_WRONLY);
    auto refused = Output(full).write("x");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::io);
    ::close(full);
    int read_only = ::open("/dev/null", O_RDONLY);
    CHECK_FALSE(Output(read_only).write("x"));
    ::close(read_only);
}

TEST_CASE("control bytes in model text are shown, not executed") {
    CHECK(visible("a\x1b[31mb\x07\n\tc\x7f") == "a^[[31mb^G\n\tc^?");
    CHECK(visible("日本") == "日本");
    CHECK(visible("a\xc2\x9b" "31m\xc2\x85 \xe2\x80\xae\xe2\x81\xa6" "b\xc2\xa0é") ==
          "a\\u009b31m\\u0085 \\u202e\\u2066b\xc2\xa0é");
    CHECK(visible("\x9b" "a") == "\\x9b" "a");  // no character; some terminals obey it
}

TEST_CASE("keys: characters from bytes, pastes up to their end marker") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::string bytes = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80\xff\xc0z\xe6\x97q\xed\xa0\x80";
    bytes += "one\r\ntwo\rthree\x1b[A\ttab\x1b[201~after";
    REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(ends[1]);
    KeyInput input(ends[0]);
    constexpr int raw = KeyInput::stand_in;
    for (int code : {int{'a'}, 0xe9, 0x65e5, 0x1f600, raw + 0xff, raw + 0xc0, int{'z'}, raw + 0xe6,
                     raw + 0x97, int{'q'}, raw + 0xed, raw + 0xa0, raw + 0x80})
        CHECK(input.character() == code);
    CHECK(input.paste() == "one\ntwo\nthree\x1b[A\ttab");
    CHECK(input.character() == 'a');
    CHECK(input.paste() == "fter");  // no end marker: the end of input ends the paste
    CHECK(input.character() == KeyInput::end);
    ::close(ends[0]);
    CHECK(bytes_restored("a\xf4\x8f\xb8\x80"
                         "\xf4\x8f\xbb\xbf"
                         "\xc3\xa9\xff") == std::string("a\0\xff\xc3\xa9\xff", 6));
}

TEST_CASE("user text: the first byte that is not UTF-8 is named, with its offset") {
    for (const char* text : {"", "abc", "\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80", "\xef\xbf\xbd"}) {
        CHECK(check_utf8("-p", text));
    }
    struct Case {
        const char* text;
        const char* message;
    };
    for (const Case& c : {Case{"\xff", "-p: not UTF-8: byte 0xff at offset 0"},
                          {"\xc3\xa9\x80x", "-p: not UTF-8: byte 0x80 at offset 2"},
                          {"ab\xed\xa0\x80", "-p: not UTF-8: byte 0xed at offset 2"},
                          {"ab\xc0\xaf", "-p: not UTF-8: byte 0xc0 at offset 2"},
                          {"ab\xe6\x97",
                           "-p: not UTF-8: byte 0xe6 at offset 2 begins an "
                           "incomplete character"}}) {
        auto checked = check_utf8("-p", c.text);
        REQUIRE_FALSE(checked);
        CHECK(checked.error().code == Code::usage);
        CHECK(checked.error().message == c.message);
    }
}

TEST_CASE("user text: a byte order mark is removed at the front, and only there") {
    const std::string mark = "\xef\xbb\xbf";
    for (const auto& [text, left] : {std::pair<std::string, std::string>{"", ""},
                                     {mark, ""},
                                     {mark + "a", "a"},
                                     {mark + mark + "a", mark + "a"},
                                     {"a" + mark, "a" + mark},
                                     {"\xef\xbb", "\xef\xbb"}}) {
        std::string dropped = text;
        drop_byte_order_mark(dropped);
        CHECK(dropped == left);
    }
}

TEST_CASE("conversations survive being written and read") {
    std::vector<Message> messages = {{Role::system, "be \"brief\"", ""},
                                     {Role::user, "hi\n\x1b[0m", ""},
                                     {Role::assistant, "héllo", "thought"}};
    auto back = parse_messages("x", messages_json(messages));
    REQUIRE(back);
    REQUIRE(back->size() == 3);
    CHECK((*back)[0].role == Role::system);
    CHECK((*back)[1].content == "hi\n\x1b[0m");
    CHECK((*back)[2].reasoning == "thought");
    for (const char* bad :
         {"", "{}", "[]", "3", "[3]", "[{\"role\":\"user\"}]",
          "[{\"role\":\"judge\",\"content\":\"x\"}]", "[{\"role\":\"user\",\"content\":7}]"}) {
        CAPTURE(bad);
        auto refused = parse_messages("--messages f.json", bad);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Code::usage);
        CHECK(refused.error().message.find("--messages f.json") == 0);
    }
    auto third = parse_messages("f", "[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"user\"}]");
    CHECK(third.error().message.find("message 1") != std::string::npos);
}

TEST_CASE("a file is written completely or not at all, readable by its owner only") {
    TempFolder folder;
    auto path = folder / "chat.json";
    CHECK(write_file_whole(path, "one"));
    CHECK(write_file_whole(path, "two"));
    CHECK(read_file(path) == "two");
    struct stat info;
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    auto refused = write_file_whole(folder / "missing" / "chat.json", "x");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::io);
    size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path()))
        ++files;
    CHECK(files == 1);  // no temporary file left
}
