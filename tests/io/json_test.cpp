#include "io/json.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "io/file.h"
#include "io/text.h"
#include "tests/support/messages.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

Json parsed(std::string_view text) {
    auto json = Json::parse(text);
    REQUIRE_MESSAGE(json, (json ? "" : json.error().message));
    return *json;
}

std::string refused(std::string_view text) {
    const auto json = Json::parse(text);
    REQUIRE(!json);
    CHECK(json.error().code == Code::corrupt);
    for (const char c : json.error().message) REQUIRE(static_cast<uint8_t>(c) >= 0x20);
    CHECK(json.error().message.size() < 400);
    return json.error().message;
}

}  // namespace

TEST_CASE("whole numbers keep all 64 bits") {
    const Json json = parsed(
        R"({"a": 9007199254740993, "b": 9223372036854775807, "c": -9223372036854775808,
            "d": 6364136223846793005, "e": 0, "f": -0})");
    CHECK(*json["a"].integer() == 9007199254740993);
    CHECK(*json["b"].integer() == INT64_MAX);
    CHECK(*json["c"].integer() == INT64_MIN);
    CHECK(*json["d"].integer() == 6364136223846793005);
    CHECK(*json["e"].integer() == 0);
    CHECK(*json["f"].integer() == 0);
}

TEST_CASE("anything but a 64-bit whole number is refused with its path") {
    const Json json = parsed(
        R"({"a": {"b": [1, 3.5, 1e3, "x", null, true, 9223372036854775808, 1e19,
            18446744073709551616, [], {}, -9223372036854775809]}})");
    const Json list = json["a"]["b"];
    REQUIRE(list.size() == 12);
    for (size_t i = 1; i < list.size(); ++i) {
        CAPTURE(i);
        const auto value = list.at(i).integer();
        REQUIRE(!value);
        CHECK(value.error().code == Code::corrupt);
        CHECK(value.error().message.starts_with(cat("a.b[", i, "]: expected an integer")));
    }
    CHECK(list.at(3).integer().error().message == "a.b[3]: expected an integer, found \"x\"");
    CHECK(json["a"]["c"].integer().error().message == "a.c: missing, expected an integer");
    CHECK(json.integer().error().message == "the document: expected an integer, found an object");
    CHECK(list.integers().error().message == "a.b[1]: expected an integer, found 3.5");
}

TEST_CASE("getters") {
    const Json json = parsed(
        R"({"s": "a\u00e9\ud83d\ude00\u0000b", "t": true, "n": null, "x": 1.5, "i": -3,
            "big": 18446744073709551615, "l": [1, 2, 3], "empty": [], "o": {"k": []}})");
    CHECK(*json["s"].string() == std::string("aé😀\0b", 9));
    CHECK(*json["t"].boolean());
    CHECK(json["n"].is_null());
    CHECK(json.has("n"));
    CHECK(!json.has("absent"));
    CHECK(json["absent"].is_null());
    CHECK(json["absent"]["deeper"].at(7).is_null());
    CHECK(json["absent"].path() == "absent");
    CHECK(*json["x"].number() == 1.5);
    CHECK(*json["i"].number() == -3);
    CHECK(*json["big"].number() == 18446744073709551615.0);
    CHECK(*json["l"].integers() == std::vector<int64_t>{1, 2, 3});
    CHECK(json["empty"].integers()->empty());
    CHECK(json["l"].is_array());
    CHECK(json["o"].is_object());
    CHECK(json["s"].is_string());
    CHECK(json["big"].is_number());
    CHECK(json["t"].is_bool());
    CHECK(json["l"].at(3).is_null());
    CHECK(!json["l"].at(3).integer());
    CHECK(!json["t"].string());
    CHECK(!json["s"].boolean());
    CHECK(!json["s"].number());
    CHECK(!json["o"].integers());
    CHECK(Json().is_null());
    CHECK(Json().size() == 0);
}

TEST_CASE("members keep the document's order") {
    const Json json = parsed(R"({"z": 1, "a": 2, "m": {"y": 0, "b": 0}})");
    CHECK(json.keys() == std::vector<std::string>{"z", "a", "m"});
    CHECK(json.size() == 3);
    std::string seen;
    json["m"].each_member([&](std::string_view key, const Json& value) {
        seen += cat(key, "=", *value.integer(), "@", value.path(), " ");
        return true;
    });
    CHECK(seen == "y=0@m.y b=0@m.b ");
    int visits = 0;
    json.each_member([&](std::string_view, const Json&) { return ++visits < 2; });
    CHECK(visits == 2);
    json["z"].each_member([&](std::string_view, const Json&) { return ++visits > 0; });
    CHECK(visits == 2);
}

TEST_CASE("a part of a document outlives the document") {
    Json inner;
    {
        const Json json = parsed(R"({"a": {"b": "kept"}})");
        inner = json["a"];
    }
    CHECK(*inner["b"].string() == "kept");
}

TEST_CASE("errors have line and column, and no raw bytes") {
    CHECK(mentions(refused("{\"a\":\n  xyz}"), "line 2, column 3"));
    CHECK(mentions(refused(""), "line 1, column 1: unexpected end of input"));
    CHECK(mentions(refused("[1, 2"), "expected ']'"));
    CHECK(mentions(refused("[\"\x1b[31m\"]"), "must be escaped"));
    for (const std::string_view text : {"[1,]",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "{'a':1}",
                                        "[01]",
                                        "[+1]",
                                        "[1.]",
                                        "[.5]",
                                        "[NaN]",
                                        "[Infinity]",
                                        "[1] x",
                                        "[1][2]",
                                        "// x\n1",
                                        "\"\xff\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\\ud800\"",
                                        "\"\\x41\"",
                                        "\"a\nb\"",
                                        "nul",
                                        "tru",
                                        "\x1b]0;title\x07",
                                        "\xff\xfe",
                                        "{\"\x01\": 1}",
                                        "[1e999]",
                                        "\xef\xbb",
                                        "{\"a\"}",
                                        "}",
                                        "]",
                                        ",",
                                        ":"}) {
        CAPTURE(printable(text));
        refused(text);
    }
    CHECK(mentions(refused(std::string_view("[1]\n\0x", 6)), "line 2, column 1: a zero byte"));
    refused("[\"" + std::string(1'000'000, 'x'));          // an endless string is not echoed
    refused("[" + std::string(1'000'000, '9') + "e999]");  // nor an endless number
}

TEST_CASE("a duplicate key is refused at any depth") {
    const std::string message = refused("{\"o\": [{\"k\": 1,\n \"l\": 2, \"k\": 3}]}");
    CHECK(mentions(message, "duplicate key \"k\""));
    CHECK(mentions(message, "line 2"));
    CHECK(mentions(refused("{\"a\": 1, \"\\u0061\": 2}"), "duplicate key"));
    parsed(R"({"a": {"a": {"a": 1}}})");
}

TEST_CASE("nesting is limited to 128 levels") {
    const auto nested = [](int levels) {
        return std::string(levels, '[') + std::string(levels, ']');
    };
    parsed(nested(128));
    CHECK(mentions(refused(nested(129)), "deeper than 128"));
    refused(std::string(10'000'000, '['));
    std::string objects;
    for (int i = 0; i < 129; ++i) objects += "{\"k\":";
    CHECK(mentions(refused(objects), "deeper than 128"));
}

TEST_CASE("a document cut or damaged at any byte is refused or parsed, without a crash") {
    const std::string text =
        R"({"model_type": "x", "list": [1, -2.5e3, true, null, "\u00e9"], "deep": {"k": {}}})";
    for (size_t length = 0; length < text.size(); ++length) refused(text.substr(0, length));
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        std::string other = text;
        for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
            other[random() % other.size()] = static_cast<char>(random());
        }
        const auto json = Json::parse(other);
        if (json) continue;
        for (const char c : json.error().message) REQUIRE(static_cast<uint8_t>(c) >= 0x20);
    }
}

TEST_CASE("parsing a large object takes time in proportion to its size") {
    std::string text = "{";
    constexpr int members = 200'000;
    for (int i = 0; i < members; ++i) text += cat(i == 0 ? "" : ",", "\"token", i, "\":", i);
    const Json json = parsed(text + "}");
    CHECK(json.size() == members);
    for (int i = 0; i < members; ++i) {
        if (*json[cat("token", i)].integer() != i) FAIL("wrong member");
    }
}

TEST_CASE("the tokenizer of the test model parses") {
    const auto text =
        read_text(std::string(test::models_folder) + "/dsv41-tiny/tokenizer.json", 100u << 20);
    REQUIRE(text);
    CHECK(parsed(*text)["model"]["vocab"].size() > 1000);
}

TEST_CASE("parse() reads back what json_quote() writes") {
    CHECK(json_quote("a\"b\\c\n\t\r\x01") == R"("a\"b\\c\n\t\r\u0001")");
    CHECK(json_quote("\xff") == "\"\xef\xbf\xbd\"");
    CHECK(json_quote("\xe2\x82") == "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    CHECK(json_quote("Größe 😀\x7f") == "\"Größe 😀\x7f\"");
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        const std::string bytes = random_bytes(seed % 40, seed);
        const auto back = Json::parse(json_quote(bytes));
        REQUIRE(back);
        bool valid = true;
        for (std::string_view rest = bytes; !rest.empty();) {
            const size_t length = utf8_length(rest);
            valid = valid && length > 0;
            rest.remove_prefix(std::max<size_t>(length, 1));
        }
        if (valid) CHECK(*back->string() == bytes);
    }
}
