#include "io/text.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "io/log.h"

using namespace sluice;

TEST_CASE("size_text prints three digits in binary units") {
    CHECK(size_text(0) == "0 B");
    CHECK(size_text(512) == "512 B");
    CHECK(size_text(1023) == "1023 B");
    CHECK(size_text(1024) == "1 KiB");
    CHECK(size_text(1536) == "1.5 KiB");
    CHECK(size_text(1023 * 1024) == "0.999 MiB");
    CHECK(size_text(7838315315) == "7.3 GiB");
    CHECK(size_text(uint64_t{510} << 30) == "510 GiB");
    CHECK(size_text(UINT64_MAX) == "16 EiB");
}

TEST_CASE("parse_size reads what people write") {
    CHECK(*parse_size("0") == 0);
    CHECK(*parse_size("1000000") == 1000000);
    CHECK(*parse_size("12B") == 12);
    CHECK(*parse_size("16G") == uint64_t{16} << 30);
    CHECK(*parse_size("16gib") == uint64_t{16} << 30);
    CHECK(*parse_size("16GB") == 16'000'000'000);
    CHECK(*parse_size("512M") == 512u << 20);
    CHECK(*parse_size("3kb") == 3000);
    CHECK(*parse_size("2T") == uint64_t{2} << 40);
    CHECK(*parse_size("7.5GiB") == (uint64_t{15} << 29));
    CHECK(*parse_size("0.1KB") == 100);
    CHECK(*parse_size("18446744073709551615") == UINT64_MAX);
    CHECK(*parse_size("0.99999999999999999999G") < uint64_t{1} << 30);
}

TEST_CASE("parse_size refuses anything else and names it") {
    for (const char* text : {"",          " ",
                             "G",         "-1",
                             "+1",        "1 G",
                             "1e3",       ".5G",
                             "5.G",       "1.5",
                             "1.5B",      "16X",
                             "16GiBs",    "16Gi",
                             "0x10",      "18446744073709551616",
                             "16777216T", "99999999999999999999999999999",
                             "1G\n",      "1K2"}) {
        CAPTURE(text);
        const auto size = parse_size(text);
        REQUIRE(!size);
        CHECK(size.error().code == Code::usage);
        CHECK(size.error().message.find('\n') == std::string::npos);
    }
    CHECK(parse_size("16X").error().message.find("16X") != std::string::npos);
}

TEST_CASE("utf8_length accepts only valid characters") {
    CHECK(utf8_length("a") == 1);
    CHECK(utf8_length("é") == 2);
    CHECK(utf8_length("€x") == 3);
    CHECK(utf8_length("😀") == 4);
    CHECK(utf8_length("\xf4\x8f\xbf\xbf") == 4);
    for (const char* text :
         {"", "\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xed\xa0\x80",
          "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
        CAPTURE(text);
        CHECK(utf8_length(text) == 0);
    }
}

TEST_CASE("printable returns one harmless line") {
    CHECK(printable("model-00001.safetensors") == "model-00001.safetensors");
    CHECK(printable("Größe €😀") == "Größe €😀");
    CHECK(printable("a\nb\x1b[31m") == "a\\x0ab\\x1b[31m");
    CHECK(printable("\x7f") == "\\x7f");
    CHECK(printable("\xff\xc3") == "\\xff\\xc3");
    CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");           // a control character past ASCII
    CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // changes the writing direction
    CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
    CHECK(printable(std::string(200, 'x')) == std::string(200, 'x'));
    CHECK(printable(std::string(201, 'x')) == std::string(197, 'x') + "...");
    std::string characters;
    for (int i = 0; i < 300; ++i) characters += "€";
    const std::string cut = printable(characters);
    CHECK(cut.size() <= 200);
    CHECK(cut.substr(cut.size() - 6) == "€...");
    CHECK(printable(std::string(100000, '\1')).size() <= 200);
}

TEST_CASE("cat and errno_text") {
    CHECK(cat("shard ", 7, ": ", 'x', ' ', uint64_t{1} << 63) == "shard 7: x 9223372036854775808");
    CHECK(errno_text(EIO) == "Input/output error (EIO)");
    CHECK(errno_text(99999) == "error 99999");
}

TEST_CASE("the log keeps its level, and braces in a line are plain text") {
    const log::Level before = log::level();
    log::set_level(log::Level::error);
    CHECK(log::level() == log::Level::error);
    log::warn("not shown {} %s");
    log::set_level(log::Level::off);
    CHECK(log::level() == log::Level::off);
    log::error("{} {0} {:x} %n");  // a format string would throw here
    log::set_level(before);
    CHECK(log::level() == before);
}
