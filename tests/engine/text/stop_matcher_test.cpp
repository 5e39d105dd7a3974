#include "engine/text/stop_matcher.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace sluice;

namespace {

struct Outcome {
    std::string text;
    bool stopped;
};

// The stream cut into pieces of the given lengths (cycled; 0 counts as 1).
Outcome stream(const std::vector<std::string>& stops, const std::string& text,
               const std::vector<size_t>& cuts) {
    auto matcher = StopMatcher::create(stops);
    REQUIRE(matcher);
    Outcome out{{}, false};
    size_t at = 0;
    for (size_t i = 0; at < text.size(); ++i) {
        size_t length = std::max<size_t>(cuts.empty() ? 1 : cuts[i % cuts.size()], 1);
        out.text += matcher->push(std::string_view(text).substr(at, length));
        at += length;
    }
    if (!matcher->stopped()) out.text += matcher->finish();
    out.stopped = matcher->stopped();
    return out;
}

// The contract, by brute force: the match that ends first, then the longest.
Outcome expected(const std::vector<std::string>& stops, const std::string& text) {
    for (size_t end = 1; end <= text.size(); ++end) {
        size_t longest = 0;
        for (const auto& stop : stops) {
            bool here =
                stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0;
            if (here) longest = std::max(longest, stop.size());
        }
        if (longest > 0) return {text.substr(0, end - longest), true};
    }
    return {text, false};
}

}  // namespace

TEST_CASE("a stop string that spans pieces is found, and no part of it is let through") {
    for (size_t cut : {1, 2, 3, 5, 100}) {
        CAPTURE(cut);
        auto out = stream({"beta gamma"}, "alpha beta gamma delta", {cut});
        CHECK(out.stopped);
        CHECK(out.text == "alpha ");
    }
}

TEST_CASE("a possible beginning of a stop string is held back, and released once it is not one") {
    auto matcher = StopMatcher::create({"STOP"});
    REQUIRE(matcher);
    CHECK(matcher->push("go ST") == "go ");
    CHECK(matcher->push("A") == "STA");
    CHECK(matcher->push("STO") == "");
    CHECK_FALSE(matcher->stopped());
    CHECK(matcher->finish() == "STO");
}

TEST_CASE("a failed match may hide the beginning of another") {
    CHECK(stream({"aab"}, "aaab!", {1}).text == "a");
    CHECK(stream({"abab"}, "aababab", {1}).text == "a");
    CHECK(stream({"\n\n"}, "one\ntwo\n\nthree", {4}).text == "one\ntwo");
}

TEST_CASE("overlapping stops: the one that ends first counts, then the longest") {
    CHECK(stream({"abcd", "bc"}, "xabcdx", {1}).text == "xa");
    CHECK(stream({"c", "abc"}, "xabcx", {2}).text == "x");
    CHECK(stream({"abc", "abc"}, "abc", {1}).text == "");
}

TEST_CASE("bytes, not characters: a stop may begin inside one") {
    CHECK(stream({"\xa9 end"}, "caf\xc3\xa9 end", {1}).text == "caf\xc3");
    CHECK(stream({"日本"}, "私は日本人", {1}).text == "私は");
    CHECK(stream({std::string(1, '\0')}, std::string("a\0b", 3), {1}).text == "a");
}

TEST_CASE("an empty stop string and a seventeenth one are refused") {
    auto empty = StopMatcher::create({"a", ""});
    REQUIRE_FALSE(empty);
    CHECK(empty.error().code == Code::usage);
    CHECK(StopMatcher::create(std::vector<std::string>(16, "x")));
    CHECK_FALSE(StopMatcher::create(std::vector<std::string>(17, "x")));
}

TEST_CASE("after a stop nothing more comes out") {
    auto matcher = StopMatcher::create({"."});
    CHECK(matcher->push("a.b") == "a");
    CHECK(matcher->push("c") == "");
    CHECK(matcher->finish() == "");
    CHECK(matcher->match() == ".");
}

TEST_CASE("any text, stop strings and cuts: the result is that of the definition") {
    auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b'));
    auto stop =
        rc::gen::suchThat(letters, [](const std::string& s) { return !s.empty() && s.size() < 6; });
    CHECK(rc::check([&] {
        auto text = *letters;
        auto stops = *rc::gen::resize(4, rc::gen::container<std::vector<std::string>>(stop));
        auto cuts = *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(1, 5));
        auto want = expected(stops, text);
        auto got = stream(stops, text, cuts);
        RC_ASSERT(got.text == want.text);
        RC_ASSERT(got.stopped == want.stopped);
    }));
}
