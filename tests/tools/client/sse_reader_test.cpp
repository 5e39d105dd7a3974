#include "tools/client/sse_reader.h"

#include <doctest/doctest.h>

#include <vector>

using namespace sluice;

namespace {

using Items = std::vector<std::string>;

// "=" before an event's data, ":" before a comment.
Items items_of(std::string_view text, size_t first, size_t piece) {
    SseReader reader;
    Items out;
    const auto take = [&](const SseItem& item) -> Result<void> {
        out.push_back((item.kind == SseItem::Kind::event ? "=" : ":") + std::string(item.text));
        return {};
    };
    REQUIRE(reader.push(text.substr(0, first), take));
    for (size_t at = std::min(first, text.size()); at < text.size(); at += piece) {
        REQUIRE(reader.push(text.substr(at, piece), take));
    }
    return out;
}

// The same, however the bytes are cut.
void check_items(std::string_view text, const Items& wanted) {
    CAPTURE(text);
    for (size_t first = 0; first <= text.size(); ++first) {
        CAPTURE(first);
        CHECK(items_of(text, first, text.size() + 1) == wanted);
    }
    for (size_t piece = 1; piece < 4; ++piece) CHECK(items_of(text, 0, piece) == wanted);
}

Result<void> nothing(const SseItem&) {
    return {};
}

}  // namespace

TEST_CASE("events of a stream are read whatever pieces they come in") {
    check_items("data: {\"a\":1}\n\ndata: [DONE]\n\n", {"={\"a\":1}", "=[DONE]"});
    check_items("data: a\r\n\r\ndata:b\r\rdata:  c\n\r\n", {"=a", "=b", "= c"});
    check_items("data: one\ndata: two\ndata\n\n", {"=one\ntwo\n"});
    check_items("event: x\nid: 7\nretry: 5\ndata: a\nunknown\n\n", {"=a"});
    check_items("event: no data\n\n\n\ndata: \n\n", {"="});
    check_items(
        "\xef\xbb\xbf"
        "data: a\n\n\xef\xbb\xbf"
        "data: b\n\n",
        {"=a"});
    check_items("data: unfinished\n", {});
    check_items("data: unfinished", {});
    check_items(std::string_view("data: a\0b\n\n", 11), {std::string("=a\0b", 4)});
}

TEST_CASE("comments of a stream come at once and inside events") {
    check_items(": queued, place 3\n\n:x\n:\n", {":queued, place 3", ":x", ":"});
    check_items("data: a\n: note\ndata: b\n\n", {":note", "=a\nb"});
}

TEST_CASE("a line or an event that never ends is refused") {
    const std::string mebi(1 << 20, 'x');
    SseReader line;
    Result<void> done;
    size_t pushed = 0;
    for (; done && pushed < 40; ++pushed) done = line.push(mebi, nothing);
    CHECK(pushed == 17);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == Code::io);
    SseReader event;
    done = {};
    for (pushed = 0; done && pushed < 40; ++pushed)
        done = event.push("data:" + mebi + "\n", nothing);
    CHECK(pushed == 16);
    CHECK_FALSE(done);
}

TEST_CASE("an error of the handler ends the reading of a stream") {
    SseReader reader;
    int seen = 0;
    const auto done = reader.push("data: a\n\ndata: b\n\n", [&](const SseItem&) -> Result<void> {
        ++seen;
        return fail(Code::io, "enough");
    });
    REQUIRE_FALSE(done);
    CHECK(done.error().message == "enough");
    CHECK(seen == 1);
}
