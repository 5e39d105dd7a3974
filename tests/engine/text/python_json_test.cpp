#include "engine/text/python_json.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "io/format.h"
#include "io/text.h"
#include "tests/support/random.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

std::string dumped(std::string_view json) {
    const auto value = Json::parse(json);
    REQUIRE_MESSAGE(value, (value ? "" : value.error().message));
    return python_json(*value);
}

std::string random_number(test::Random& random) {
    std::string digits(1, static_cast<char>('1' + random.below(9)));
    const int more = random.below(4) == 0 ? random.below(300) : random.below(20);
    for (int i = 0; i < more; ++i) digits += static_cast<char>('0' + random.below(10));
    if (random.below(2) == 0) digits.insert(0, "-");
    switch (random.below(6)) {
        case 0:
            return digits;
        case 1:
            return random.below(2) == 0 ? "0" : "-0";
        case 2:
            return cat(digits.substr(0, 12), ".", random.below(1000));
        case 3:
            return cat(digits.substr(0, 5), random.below(2) == 0 ? "e" : "E+", random.below(25));
        case 4:
            return cat(digits.substr(0, 9), ".50e-", random.below(330));
        default: {
            const double value = std::bit_cast<double>(random.next());
            return std::isfinite(value) ? formatted("{:.17g}", value) : "1e22";
        }
    }
}

std::string random_string(test::Random& random) {
    const std::vector<std::string> parts{"a",
                                         "Zürich",
                                         "日本",
                                         "👩‍👧",
                                         "\\n",
                                         "\\t",
                                         "\\b",
                                         "\\f",
                                         "\\r",
                                         "\\/",
                                         "\\\\",
                                         "\\\"",
                                         "\x7f",
                                         "\\u0000",
                                         "\\u001F",
                                         "\\u00e9",
                                         "\\uD83D\\uDE00",
                                         "\\u2028",
                                         "{",
                                         ", "};
    std::string out = "\"";
    for (int i = random.below(8); i > 0; --i)
        out += parts[static_cast<size_t>(random.below(static_cast<int>(parts.size())))];
    return out + '"';
}

std::string random_json(test::Random& random, int depth) {
    switch (random.below(depth > 0 ? 7 : 4)) {
        case 0:
            return random_number(random);
        case 1:
            return random_string(random);
        case 2:
            return std::vector<std::string>{"true", "false", "null"}[random.next() % 3];
        case 3:
            return random.below(2) == 0 ? "[ ]" : "{ }";
        default: {
            const bool object = random.below(2) == 0;
            std::string out = object ? "{" : "[";
            for (int i = random.below(5); i >= 0; --i) {
                if (object) out += cat("\"k", i, "\" :");
                out += cat(random_json(random, depth - 1), i > 0 ? "," : "");
            }
            return out + (object ? "}" : "]");
        }
    }
}

}  // namespace

TEST_CASE("python json: separators, order, escapes and numbers") {
    CHECK(dumped(R"({"b":1,"a":[1,2,{"x":null}],"c":{},"d":[],"t":true,"f":false})") ==
          R"({"b": 1, "a": [1, 2, {"x": null}], "c": {}, "d": [], "t": true, "f": false})");
    CHECK(dumped("  \"x\"  ") == "\"x\"");
    CHECK(dumped(R"("\u0001\b\f\n\r\t\"\\\/é\ud83d\ude00\u2028")") ==
          "\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\/é😀\xe2\x80\xa8\"");
    const std::vector<std::pair<const char*, const char*>> numbers{
        {"1.0", "1.0"},
        {"1e3", "1000.0"},
        {"-0", "0"},
        {"-0.0", "-0.0"},
        {"1e15", "1000000000000000.0"},
        {"1e16", "1e+16"},
        {"0.0001", "0.0001"},
        {"0.00001", "1e-05"},
        {"1.5e300", "1.5e+300"},
        {"0.1", "0.1"},
        {"5e-324", "5e-324"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9223372036854775808"},
        {"-9223372036854775809", "-9223372036854775809"},
        {"123456789012345678901234567890", "123456789012345678901234567890"}};
    for (const auto& [text, expected] : numbers) CHECK(dumped(text) == expected);
}

TEST_CASE("python json: as Python writes random documents") {
    const TempFolder folder;
    test::Random random(7);
    std::string documents, own;
    for (int i = 0; i < 3000; ++i) {
        const std::string document = random_json(random, 4);
        documents += document + "\n";
        own += dumped(document) + "\n";
    }
    folder.write("in", documents);
    folder.write("dump.py",
                 "import json, sys\n"
                 "with open(sys.argv[1], encoding='utf-8', newline='\\n') as f:\n"
                 "    lines = f.read().split('\\n')[:-1]\n"
                 "with open(sys.argv[2], 'w', encoding='utf-8', newline='\\n') as f:\n"
                 "    for line in lines:\n"
                 "        f.write(json.dumps(json.loads(line), ensure_ascii=False) + '\\n')\n");
    const std::string command =
        cat("python3 '", (folder / "dump.py").string(), "' '", (folder / "in").string(), "' '",
            (folder / "out").string(), "'");
    REQUIRE(std::system(command.c_str()) == 0);
    const std::string theirs = read_file(folder / "out");
    REQUIRE(theirs.size() > 10000);
    CHECK(own.size() == theirs.size());
    const auto differ = std::mismatch(own.begin(), own.end(), theirs.begin(), theirs.end());
    CHECK_MESSAGE(differ.first == own.end(), std::string(differ.first, own.end()).substr(0, 80),
                  " instead of ", std::string(differ.second, theirs.end()).substr(0, 80));
}
