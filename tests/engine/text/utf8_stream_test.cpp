#include "engine/text/utf8_stream.h"

#include <doctest/doctest.h>

#include <random>

#include "engine/text/utf8.h"

using namespace sluice;

namespace {

const std::string replacement = "\xef\xbf\xbd";

std::string whole(std::string_view bytes) {
    Utf8Stream stream;
    std::string out = stream.push(bytes);
    return out + stream.finish();
}

}  // namespace

TEST_CASE("utf8 stream: characters cut at every byte come out whole") {
    const std::string text = "aé\u0300日本👩‍👩‍👧🇩🇪\U0010ffff\u007f";
    for (size_t cut = 0; cut <= text.size(); ++cut) {
        for (size_t second = cut; second <= text.size(); ++second) {
            Utf8Stream stream;
            std::string out = stream.push(std::string_view(text).substr(0, cut));
            CHECK(utf8_prefix(out) == out.size());
            CHECK(out.size() + 3 >= cut);
            out += stream.push(std::string_view(text).substr(cut, second - cut));
            CHECK(utf8_prefix(out) == out.size());
            out += stream.push(std::string_view(text).substr(second));
            out += stream.finish();
            REQUIRE(out == text);
        }
    }
}

TEST_CASE("utf8 stream: invalid bytes become U+FFFD at once") {
    Utf8Stream stream;
    CHECK(stream.push("\xff") == replacement);
    CHECK(stream.push("a\xe2\x82") == "a");
    CHECK(stream.push("b") == replacement + "b");
    CHECK(stream.push("\xf0\x9f\x98") == "");
    CHECK(stream.finish() == replacement);
    CHECK(stream.finish() == "");
    CHECK(stream.push("ok") == "ok");
}

TEST_CASE("utf8 stream: one U+FFFD for each longest run that might have been a character") {
    CHECK(whole("\xe2\x82\xff") == replacement + replacement);
    CHECK(whole("\xf0\x9f\x98") == replacement);
    CHECK(whole("\xf0\x9f\xf0\x9f\x98\x80") == replacement + "😀");
    CHECK(whole("\xed\xa0\x80") == replacement + replacement + replacement);
    CHECK(whole("\xc0\x80") == replacement + replacement);
    CHECK(whole("\xf4\x90\x80\x80") == replacement + replacement + replacement + replacement);
    CHECK(whole("\xf5\xf8\xfe") == replacement + replacement + replacement);
    CHECK(whole("\x80") == replacement);
    CHECK(whole("\xe0\x9f\xbf") == replacement + replacement + replacement);
    CHECK(whole(std::string_view("\0", 1)) == std::string(1, '\0'));
}

TEST_CASE("utf8 stream: the text does not depend on how the bytes are cut") {
    std::mt19937 random(11);
    const std::string_view alphabet = "a\x80\xbf\xc3\xe0\xe2\xed\xf0\xf4\xff\x9f\xa0\x82\xac";
    for (int round = 0; round < 3000; ++round) {
        std::string bytes(random() % 24, ' ');
        for (char& byte : bytes) byte = alphabet[random() % alphabet.size()];
        Utf8Stream stream;
        std::string out;
        for (size_t at = 0; at < bytes.size();) {
            const size_t length = std::min<size_t>(bytes.size() - at, random() % 4);
            out += stream.push(std::string_view(bytes).substr(at, length));
            at += length;
        }
        out += stream.finish();
        REQUIRE(out == whole(bytes));
        REQUIRE(utf8_prefix(out) == out.size());
    }
}

TEST_CASE("utf8: every scalar value is written and read back") {
    std::string text;
    for (char32_t c = 0; c <= 0x10ffff; ++c) {
        if (c == 0xd800) c = 0xe000;
        text.clear();
        append_utf8(text, c);
        const Utf8Step step = utf8_at(text, 0);
        REQUIRE(step.state == Utf8State::whole);
        REQUIRE(step.bytes == text.size());
        REQUIRE(step.value == c);
        if (text.size() > 1)
            REQUIRE(utf8_at(text.substr(0, text.size() - 1), 0).state == Utf8State::unfinished);
    }
}
