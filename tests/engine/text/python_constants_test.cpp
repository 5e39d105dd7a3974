#include "engine/text/python_constants.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "io/text.h"
#include "tests/support/messages.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

std::map<std::string, std::string> texts(std::string_view source) {
    const auto found = read_python_constants(source);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message));
    std::map<std::string, std::string> out;
    for (const PythonConstant& one : *found) {
        CHECK_MESSAGE(one.problem.empty(), one.name, ": ", one.problem);
        CHECK(out.emplace(one.name, one.text).second);
    }
    return out;
}

using Texts = std::map<std::string, std::string>;

std::string problem_of(std::string_view source) {
    const auto found = read_python_constants(source);
    REQUIRE(found);
    REQUIRE(found->size() == 1);
    CHECK(found->front().text.size() <= 1);
    return found->front().problem;
}

std::string refusal(std::string_view source) {
    const auto found = read_python_constants(source);
    REQUIRE(!found);
    CHECK(found.error().code == Code::corrupt);
    return found.error().message;
}

// Everything that is read, and much that is not, in one file that Python accepts.
const std::string sample = R"PY(#!/usr/bin/env python3
"""A docstring:
INSIDE = "no"
"""
import os, sys
ONE = "one"
TWO: str = 'two'   # a comment with a "quote
THREE: "dict[str, str]" = """three
lines"""
FOUR = (
    "several "  # comment ) "
    'parts' "\tof it"

    + ONE + TWO
)
FIVE = "a" "b" 'c'
SIX = r"raw \n \" {x}"; SEVEN = u'u\x41'
EIGHT = "one \
line"
NINE = ("nine")
TEN = (("nested"))
ELEVEN = "" + FOUR + '!'
TWELVE = """quote " and "" inside \""" """
THIRTEEN = "escapes: \\ \' \" \a\b\f\n\r\t\v \0 \101 \x7e \u00e9 \U0001F600 \d \8"
FOURTEEN = ''
FIFTEEN = \
    "continued"
F1 = f"{ONE} x"
F2 = b"bytes"
F3 = ONE
F4 = ("a",)
F5 = "a" % ()
F6 = "x".strip()
F7 = ["x"]
F8 = "a" if ONE else "b"
F9, F10 = "a", "b"
F11 = F12 = "a"
F13: str
F14 = ONE + "x"
F15 = "x" + str(1)
F16 = 7
F17 = "a" + F16.__class__.__name__
F18 = "x" "y" * 2
if ONE == TWO: F19 = "z"
if ONE != TWO:
    F20 = "indented"
else: F21 = "no"
def function(a="(", b=']'):
    F22 = """
F23 = "in a function"
"""
    return {"a": [1, (2)]}
class Thing: F24 = "x"
if ONE == TWO: CHANGED = 1
CHANGED = "before"
CHANGED += "after"
AGAIN = "first"
AGAIN = "second"
LOST = "literal"
LOST = LOST.upper()
ARRAY = {"k": "v"}
ARRAY[ONE] = "x"
LAST = "last")PY";

}  // namespace

TEST_CASE("python constants: what is read, and what is passed over") {
    const Texts expected{
        {"ONE", "one"},
        {"TWO", "two"},
        {"THREE", "three\nlines"},
        {"FOUR", "several parts\tof itonetwo"},
        {"FIVE", "abc"},
        {"SIX", R"(raw \n \" {x})"},
        {"SEVEN", "uA"},
        {"EIGHT", "one line"},
        {"NINE", "nine"},
        {"TEN", "nested"},
        {"ELEVEN", "several parts\tof itonetwo!"},
        {"TWELVE", "quote \" and \"\" inside \"\"\" "},
        {"THIRTEEN", cat("escapes: \\ ' \" \a\b\f\n\r\t\v ", '\0', " A ~ é 😀 \\d \\8")},
        {"FOURTEEN", ""},
        {"FIFTEEN", "continued"},
        {"AGAIN", "second"},
        {"LAST", "last"}};
    const Texts found = texts(sample);
    CHECK(found.size() == expected.size());
    for (const auto& [name, text] : expected) {
        CAPTURE(name);
        REQUIRE(found.contains(name));
        CHECK(found.at(name) == text);
    }
}

TEST_CASE("python constants: the texts are those that Python has") {
    const TempFolder folder;
    folder.write("sample.py", sample);
    std::string script =
        "import runpy, sys, warnings\nwarnings.simplefilter('ignore')\n"
        "names = runpy.run_path(sys.argv[1])\n";
    for (const auto& [name, text] : texts(sample)) {
        script += cat("assert names['", name, "'].encode() == bytes([");
        for (const char c : text) script += cat(static_cast<int>(static_cast<uint8_t>(c)), ",");
        script += cat("]), '", name, "'\n");
    }
    folder.write("check.py", script);
    const std::string command = cat("python3 -W ignore '", (folder / "check.py").string(), "' '",
                                    (folder / "sample.py").string(), "'");
    CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("python constants: the entries of a dict are constants") {
    CHECK(python_entry("A", "k") == "A[\"k\"]");
    const std::string source =
        "E = 'e'\nA: Dict[str, str] = {  # words\n  'one': 'x' 'y', \"two-2\": (E + '!'),\n\n"
        "  'three': E, 'none': None, 'one': r'\\d' 'z'}\nB = {}; C = 'c'\n";
    const Texts expected{{"E", "e"},
                         {R"(A["one"])", "\\dz"},
                         {R"(A["two-2"])", "e!"},
                         {R"(A["three"])", "e"},
                         {R"(A["none"])", ""},
                         {"C", "c"}};
    CHECK(texts(source) == expected);
    CHECK(read_python_constants(source)->at(1).line == 2);
    // Assigned again, or changed: the entries are forgotten.
    CHECK(texts(source + "A = {'k': 'v'}") == Texts{{"E", "e"}, {"C", "c"}, {R"(A["k"])", "v"}});
    CHECK(texts(source + "A = 'a'") == Texts{{"E", "e"}, {"C", "c"}, {"A", "a"}});
    for (const char* change : {"A['one'] = 'q'", "A = f()", "A |= B", "A = {**A}"})
        CHECK(texts(source + change) == Texts{{"E", "e"}, {"C", "c"}});
    // Other dicts and sets are passed over whole.
    for (const char* other :
         {"A = {'k': 1}", "A = {'k': f'x'}", "A = {'k': ['x']}", "A = {'k': {'l': 'x'}}",
          "A = {'a key': 'x'}", "A = {'': 'x'}", "A = {k: 'x'}", "A = {1: 'x'}", "A = {'x', 'y'}",
          "A = {'k': 'x'}.copy()", "A = {'k': 'x' for _ in y}", "A = {'k': unknown}",
          "A = {'k': None + 'x'}", "A = {**B}", "A = {'k': 'x' 'l': 'y'}", "A = {,}"}) {
        CAPTURE(other);
        CHECK(texts(cat(other, "\nC = 'c'")) == Texts{{"C", "c"}});
    }
    CHECK(mentions(problem_of(R"(A = {"k": "\N{BULLET}"})"), "\\N"));
    CHECK(refusal("A = {'k': 'x'\n") == "line 1: a bracket that does not close");
    std::string bomb = cat("A = '", std::string(size_t{200} << 10, 'x'), "'\nB = {");
    for (int i = 0; i < 1000; ++i) bomb += cat("'k", i, "': A,");
    CHECK(mentions(refusal(bomb + "}"), "8 MiB of text"));
}

TEST_CASE("python constants: line ends, a byte order mark, empty files") {
    CHECK(texts("").empty());
    CHECK(texts("\n\n# only a comment").empty());
    CHECK(texts("\xef\xbb\xbf"
                "A = 'x'") == Texts{{"A", "x"}});
    CHECK(texts("A = '''x\r\ny\rz'''\r\nB = 'b'\rC = 'c'") ==
          Texts{{"A", "x\ny\nz"}, {"B", "b"}, {"C", "c"}});
    const auto lines = read_python_constants("\n\nA = (\n'a'\n)\n\nB = 'b'; C = 'c'");
    REQUIRE(lines);
    CHECK((*lines)[0].line == 3);
    CHECK((*lines)[1].line == 7);
    CHECK((*lines)[2].line == 7);
}

TEST_CASE("python constants: what cannot be read becomes the constant's problem") {
    CHECK(mentions(problem_of(R"(A = "\N{BULLET}")"), "\\N"));
    CHECK(mentions(problem_of(R"(A = "\ud800")"), "surrogate"));
    CHECK(mentions(problem_of(R"(A = "\U00110000")"), "U+10FFFF"));
    CHECK(mentions(problem_of(R"(A = "\x4")"), "digits"));
    CHECK(mentions(problem_of(R"(A = "\u12g4")"), "digits"));
    CHECK(mentions(problem_of(cat("A = '", std::string(size_t{300} << 10, 'x'), "'")), "256 KiB"));
    // It passes to what is made of it; others stay readable.
    const auto found = read_python_constants("A = '\\N{X}'\nB = 'b' + A\nC = 'c'");
    REQUIRE(found);
    CHECK(mentions((*found)[1].problem, "\\N"));
    CHECK((*found)[2].text == "c");
}

TEST_CASE("python constants: damaged files are refused with the line") {
    CHECK(refusal("A = 'x'\nB = 'y\nC = 1") == "line 2: a string that does not end");
    CHECK(refusal("\n\"\"\"never") == "line 2: a string that does not end");
    CHECK(refusal("A = '\\") == "line 1: a string that does not end");
    CHECK(refusal("A = (\n'x'") == "line 1: a bracket that does not close");
    CHECK(refusal("x = 1\nf(") == "line 2: a bracket that does not close");
    CHECK(refusal("A = 'x'\n\n\xff") == "line 3: not valid UTF-8");
    CHECK(refusal(std::string("A = 'x\0'", 8)) == "line 1: a zero byte");
    // Texts that double with each line.
    std::string bomb = cat("A0 = '", std::string(100, 'x'), "'\n");
    for (int i = 1; i < 100; ++i) bomb += cat("A", i, " = '' + A", i - 1, " + A", i - 1, "\n");
    CHECK(read_python_constants(bomb));
    for (int i = 0; i < 100; ++i) bomb += cat("B", i, " = '' + A11\n");
    CHECK(mentions(refusal(bomb), "8 MiB of text"));
    // Deep nesting is passed over.
    const std::string deep = cat("A = ", std::string(100000, '('), "'x'", std::string(100000, ')'));
    CHECK(texts(deep).empty());
}
