#include "engine/text/json_automaton.h"

#include <doctest/doctest.h>

#include <string>

#include "engine/text/json_schema.h"
#include "io/json.h"
#include "tests/support/random.h"

using namespace sluice;

namespace {

std::shared_ptr<const JsonGrammar> grammar_of(std::string_view schema) {
    auto grammar = compile_json_schema(schema);
    REQUIRE_MESSAGE(grammar, (grammar ? "" : grammar.error().message));
    return *grammar;
}

JsonAutomaton object() {
    return JsonAutomaton(any_object_grammar());
}

JsonAutomaton anything() {
    return JsonAutomaton(grammar_of("true"));
}

// How many bytes are accepted, and whether the text can end there.
struct Reached {
    size_t bytes;
    bool can_end;
    bool operator==(const Reached&) const = default;
};

Reached feed(JsonAutomaton automaton, std::string_view text) {
    size_t at = 0;
    while (at < text.size() && automaton.accept(text.substr(at, 1))) ++at;
    return {at, automaton.can_end()};
}

bool accepts(const JsonAutomaton& automaton, std::string_view text) {
    return feed(automaton, text) == Reached{text.size(), true};
}

size_t below(test::Random& random, size_t count) {
    return static_cast<size_t>(random.next() % count);
}

std::string random_character(test::Random& random) {
    const char* some[] = {"a",
                          "Z",
                          " ",
                          "\x7f",
                          "\xc3\xa9",
                          "\xe0\xa0\x80",
                          "/",
                          "{",
                          "\\\"",
                          "\\\\",
                          "\xed\x9f\xbf",
                          "\xef\xbf\xbf",
                          "\\n",
                          "\\/",
                          "\\u00e9",
                          "\\uFFFF",
                          "\xf0\x90\x80\x80",
                          "\xf4\x8f\xbf\xbf",
                          "\\uD83D\\uDE00",
                          "\\ud7ff"};
    return some[below(random, std::size(some))];
}

std::string random_string(test::Random& random) {
    std::string out = "\"";
    for (size_t left = below(random, 6); left > 0; --left) out += random_character(random);
    return out + '"';
}

std::string random_number(test::Random& random) {
    std::string out = below(random, 2) ? "-" : "";
    out += below(random, 3) ? std::to_string(1 + below(random, 1000000)) : "0";
    if (below(random, 2)) out += "." + std::to_string(below(random, 1000));
    const char* exponents[] = {"", "e5", "E+07", "e-99"};
    return out + exponents[below(random, 4)];
}

// What the white space policy allows at a place where an object or array may have some.
std::string random_space(test::Random& random, int depth) {
    if (below(random, 2)) return "";
    if (below(random, 2)) return " ";
    return "\n" + std::string(below(random, static_cast<size_t>(4 * depth + 1)), ' ');
}

std::string random_value(test::Random& random, int depth) {
    const char* words[] = {"true", "false", "null"};
    const size_t kind = below(random, depth < 5 ? 5 : 3);
    if (kind == 0) return words[below(random, 3)];
    if (kind == 1) return random_number(random);
    if (kind == 2) return random_string(random);
    const bool is_object = kind == 3;
    std::string out(1, is_object ? '{' : '[');
    const size_t count = below(random, 4);
    for (size_t i = 0; i < count; ++i) {
        if (i > 0) out += ',';
        out += random_space(random, depth + 1);
        if (is_object) {
            // a number first, so that no key occurs twice
            out += "\"" + std::to_string(i) + random_string(random).substr(1) + ":";
            if (below(random, 2)) out += ' ';
        }
        out += random_value(random, depth + 1);
    }
    return out + random_space(random, depth + 1) + (is_object ? '}' : ']');
}

}  // namespace

TEST_CASE("json automaton: random documents are accepted byte by byte and end at their end") {
    const JsonAutomaton automaton = anything();
    for (uint64_t seed = 0; seed < 3000; ++seed) {
        test::Random random(seed);
        const std::string text = random_value(random, 0);
        CAPTURE(text);
        REQUIRE(Json::parse(text));  // the generator's own check
        REQUIRE(accepts(automaton, text));
        // In tokens of any length the same.
        JsonAutomaton pieces = automaton;
        for (size_t at = 0; at < text.size();) {
            const size_t length = 1 + below(random, 7);
            REQUIRE(pieces.accept(std::string_view(text).substr(at, length)));
            at += length;
        }
        REQUIRE(pieces.can_end());
        REQUIRE(accepts(object(), text) == (text[0] == '{'));
    }
}

TEST_CASE("json automaton: what it accepts of damaged documents is JSON") {
    const JsonAutomaton automaton = anything();
    const std::string_view bytes = "{}[],:\"\\ \n\t0129.-+eEutrfalsn\x80\xc3\xed\xff\x01";
    int accepted = 0, refused = 0;
    for (uint64_t seed = 0; seed < 20000; ++seed) {
        test::Random random(seed);
        std::string text = random_value(random, 3);
        for (size_t left = 1 + below(random, 2); left > 0; --left) {
            const size_t at = below(random, text.size());
            const char byte = bytes[below(random, bytes.size())];
            if (below(random, 3) == 0)
                text.erase(at, 1);
            else if (below(random, 2))
                text[at] = byte;
            else
                text.insert(at, 1, byte);
            if (text.empty()) text = "0";
        }
        const bool fits = accepts(automaton, text);
        const auto parsed = Json::parse(text);
        const bool is_json =
            parsed || parsed.error().message.find("duplicate key") != std::string::npos;
        CAPTURE(text);
        if (fits) REQUIRE(is_json);
        (fits ? accepted : refused) += 1;
    }
    CHECK(accepted > 1000);
    CHECK(refused > 5000);
}

TEST_CASE("json automaton: a text is refused at its first wrong byte") {
    struct Case {
        const char* text;
        size_t bytes;
    };
    const Case cases[] = {{"x", 0},
                          {" {}", 0},
                          {"{}x", 2},
                          {"{} ", 2},
                          {"{,", 1},
                          {"{a", 1},
                          {"{'", 1},
                          {"{\"a\" :", 4},
                          {"{\"a\":,", 5},
                          {"{\"a\":  1", 6},
                          {"{\"a\":\n", 5},
                          {"{\"a\":1 ,", 7},
                          {"{\"a\":1,}", 7},
                          {"[1,]", 3},
                          {"[1 2", 3},
                          {"[1]]", 3},
                          {"[}", 1},
                          {"{\"a\":1]", 6},
                          {"[01", 2},
                          {"[-a", 2},
                          {"[+1", 1},
                          {"[.5", 1},
                          {"[1.]", 3},
                          {"[1.e", 3},
                          {"[1e]", 3},
                          {"[1e+]", 4},
                          {"[1e100", 5},
                          {"[nul]", 4},
                          {"[truE", 4},
                          {"[NaN", 1},
                          {"[\"\t", 2},
                          {"[\"\x1f", 2},
                          {"[\"\\x", 3},
                          {"[\"\\u12g", 6},
                          {"[\"\\ud800\"", 8},
                          {"[\"\\ud800\\n", 9},
                          {"[\"\\ud800\\ud800", 11},
                          {"[\"\\udc00", 5},
                          {"[\"\x80", 2},
                          {"[\"\xc0\xaf", 2},
                          {"[\"\xed\xa0", 3},
                          {"[\"\xf4\x90", 3},
                          {"[\"\xe0\x80", 3},
                          {"[\"\xf5", 2},
                          {"[\"\xc3\"", 3},
                          {"[  ", 2},
                          {"[\n     ", 6},
                          {"[[\n         ", 11},
                          {"[\r", 1},
                          {"[\t", 1},
                          {"[\n\n", 2},
                          {"[123456789012345678901", 21},  // the 21st digit
                          {"[0.123456789012345678901", 23}};
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(feed(anything(), c.text).bytes == c.bytes);
    }
    CHECK(feed(object(), "[").bytes == 0);
    CHECK(feed(anything(), "{\"a\xf0\x9f\x98\x80\\ud83d\\ude00\":[\n    -0.5e-10 ]}").can_end);
}

TEST_CASE("json automaton: at most 64 levels") {
    for (const char* open : {"[", "{\"\":"}) {
        JsonAutomaton automaton = anything();
        int levels = 0;
        while (levels < 200 && automaton.accept(open)) ++levels;
        CHECK(levels == 64);
        CHECK(automaton.accept("0"));
    }
}

TEST_CASE("json automaton: whether it can end and must end") {
    JsonAutomaton automaton = anything();
    CHECK(!automaton.can_end());
    REQUIRE(automaton.accept("12"));
    CHECK(automaton.can_end());
    CHECK(!automaton.must_end());
    REQUIRE(automaton.accept("345678901234567890"));
    CHECK(!automaton.must_end());  // "." may follow
    JsonAutomaton whole(grammar_of(R"({"type": "integer"})"));
    REQUIRE(whole.accept("12345678901234567890"));
    CHECK(whole.can_end());
    CHECK(whole.must_end());
    JsonAutomaton list = object();
    REQUIRE(list.accept("{}"));
    CHECK(list.must_end());
    CHECK(!list.accept(" "));
    CHECK(list.must_end());  // nothing changed
}

TEST_CASE("json automaton: frames do not pile up") {
    JsonAutomaton automaton = anything();
    REQUIRE(automaton.accept("[[["));
    for (int i = 0; i < 20000; ++i) REQUIRE(automaton.accept("{\"a\":[1,\"b\"]},"));
    CHECK(automaton.frames() < 3000);
    REQUIRE(automaton.accept("0]]]"));
    CHECK(automaton.must_end());
}

TEST_CASE("json automaton: alternatives are joined or given up at the limit") {
    // Every "[" doubles the ways in which the text can be read.
    JsonAutomaton twice(grammar_of(R"({"anyOf": [
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        {"type": "array", "items": {"$ref": "#"}, "maxItems": 1},
        {"type": "integer"}]})"));
    for (int i = 0; i < 40; ++i) REQUIRE(twice.accept("["));
    CHECK(twice.configs().size() == JsonAutomaton::configs_max);
    REQUIRE(twice.accept("7"));
    for (int i = 0; i < 40; ++i) REQUIRE(twice.accept("]"));
    CHECK(twice.must_end());
}
