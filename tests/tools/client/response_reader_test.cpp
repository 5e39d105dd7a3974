#include "tools/client/response_reader.h"

#include <doctest/doctest.h>

#include "io/text.h"

using namespace sluice;

namespace {

using State = ResponseReader::State;

struct Read {
    State state = State::reading;
    int status = 0;
    std::string body, type, problem;
    bool operator==(const Read&) const = default;
};

Read read(std::string_view bytes, size_t piece, bool closed) {
    ResponseReader reader;
    Read out;
    for (size_t at = 0; at < bytes.size(); at += piece) {
        out.state = reader.feed(bytes.substr(at, piece));
        out.body += reader.take_body();
    }
    if (closed) out.state = reader.end();
    out.problem = reader.problem();
    if (!reader.head_done()) return out;
    out.status = reader.status();
    if (const std::string* type = reader.header("content-type")) out.type = *type;
    return out;
}

// The same however the bytes are cut.
Read read_all(std::string_view bytes, bool closed = false) {
    const Read whole = read(bytes, bytes.size() + 1, closed);
    CAPTURE(bytes);
    for (size_t piece = 1; piece < bytes.size(); ++piece) {
        CAPTURE(piece);
        CHECK(read(bytes, piece, closed) == whole);
    }
    return whole;
}

const std::string chunked =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

}  // namespace

TEST_CASE("an HTTP response is read whatever pieces it arrives in") {
    const Read sized =
        read_all("HTTP/1.1 404 Not Found\r\nContent-TYPE: a/b\r\nContent-Length: 5\r\n\r\nhello");
    CHECK(sized == Read{State::complete, 404, "hello", "a/b", ""});
    const Read chunks = read_all(chunked + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
    CHECK(chunks == Read{State::complete, 200, "abcde", "text/event-stream", ""});
    const Read until_end = read_all("HTTP/1.0 200 OK\r\n\r\nall of it", true);
    CHECK(until_end == Read{State::complete, 200, "all of it", "", ""});
    CHECK(read_all("HTTP/1.0 200 OK\r\n\r\nall of it").state == State::reading);
}

TEST_CASE("what comes behind an HTTP response is dropped") {
    const Read out =
        read_all("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 500 X\r\n\r\n");
    CHECK(out == Read{State::complete, 200, "x", "", ""});
}

TEST_CASE("a connection that is closed early is no complete HTTP response") {
    for (const std::string& part :
         {std::string("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"),
          chunked + "3\r\nabc\r\n", chunked, std::string("HTTP/1.1 20")}) {
        const Read out = read_all(part, true);
        CHECK(out.state == State::failed);
        CHECK(out.problem.find("before the reply was complete") != std::string::npos);
    }
    const Read none = read("", 1, true);
    CHECK(none.state == State::failed);
    CHECK(none.problem == "the connection was closed without a reply");
}

TEST_CASE("what is no HTTP response is refused") {
    for (const std::string& text :
         {std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string("\0\1\2\3", 4),
          std::string("GET / HTTP/1.1\r\n\r\n"), chunked + "zz\r\n",
          std::string("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
          std::string("HTTP/1.1 100 Continue\r\n\r\n"), std::string("HTTP/1.1 999 X\r\n\r\n"),
          std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")}) {
        CHECK(read_all(text).state == State::failed);
    }
}

TEST_CASE("endless headers of an HTTP response are refused") {
    std::string many = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 101; ++i) many += cat("X", i, ": y\r\n");
    CHECK(read(many, many.size(), false).problem == "it has too many headers");
    const std::string large = "HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'y');
    CHECK(read(large, 1000, false).problem == "its headers are too long");
    const std::string trailer = chunked + "0\r\nX: " + std::string(70'000, 'y');
    CHECK(read(trailer, 1000, false).state == State::failed);
}
