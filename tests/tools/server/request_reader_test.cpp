#include "tools/server/request_reader.h"

#include <doctest/doctest.h>

#include "io/text.h"

using namespace sluice;

namespace {

using State = RequestReader::State;

const std::string get = "GET /health?x=1 HTTP/1.1\r\nHost: a:1\r\nX-Thing: one\r\n\r\n";

// The status that bytes are refused with; 0: they are not.
int refused(const std::string& bytes, HttpLimits limits = {}) {
    RequestReader reader(limits);
    return reader.feed(bytes) == State::failed ? reader.status() : 0;
}

std::string post(const std::string& headers, const std::string& body) {
    return cat("POST /x HTTP/1.1\r\nHost: a\r\n", headers, "\r\n", body);
}

}  // namespace

TEST_CASE("an HTTP request is read whatever pieces it arrives in") {
    const std::string all = post("Content-Length: 5\r\n", "hello");
    for (size_t piece = 1; piece <= all.size(); ++piece) {
        CAPTURE(piece);
        RequestReader reader({});
        CHECK_FALSE(reader.begun());
        auto state = State::reading;
        for (size_t at = 0; at < all.size(); at += piece) {
            CHECK(state == State::reading);
            state = reader.feed(std::string_view(all).substr(at, piece));
            CHECK(reader.begun());
        }
        REQUIRE(state == State::complete);
        const HttpRequest request = reader.take();
        CHECK(request.method == "POST");
        CHECK(request.path == "/x");
        CHECK(request.body == "hello");
        CHECK(request.keep_alive);
        CHECK(request.chunks);
        REQUIRE(request.header("content-length"));
        CHECK(*request.header("content-length") == "5");
        CHECK_FALSE(reader.begun());
    }
}

TEST_CASE("HTTP requests that arrive together are given one after another") {
    RequestReader reader({});
    REQUIRE(reader.feed(get + post("Content-Length: 2\r\n", "ab") + "GET /las") == State::complete);
    const HttpRequest first = reader.take();
    CHECK(first.path == "/health");
    CHECK(*first.header("x-thing") == "one");
    REQUIRE(reader.feed({}) == State::complete);
    CHECK(reader.take().body == "ab");
    REQUIRE(reader.feed({}) == State::reading);
    REQUIRE(reader.feed("t HTTP/1.0\r\nHost: a\r\n\r\n") == State::complete);
    const HttpRequest last = reader.take();
    CHECK(last.path == "/last");
    CHECK_FALSE(last.keep_alive);
    CHECK_FALSE(last.chunks);
}

TEST_CASE("an HTTP body is framed by its Content-Length alone") {
    for (const char* coding : {"chunked", "gzip, chunked", "identity, chunked", "identity"}) {
        CAPTURE(coding);
        const std::string header = std::string("Transfer-Encoding: ") + coding + "\r\n";
        CHECK(refused(post(header, "3\r\nabc\r\n0\r\n\r\n")) != 0);
    }
    CHECK(refused(post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n")) == 411);
}

TEST_CASE("what a proxy may read in another way is no HTTP request") {
    const std::string begin = "POST / HTTP/1.1\r\nHost: a\r\n";
    for (const char* head : {"Content-Length : 1\r\n\r\n", "Content-Length:\r\n 1\r\n\r\n",
                             "Transfer-Encoding : chunked\r\n\r\n", " X: 1\r\n\r\n",
                             "X: 1\nY: 2\r\n\r\n", "X: 1\r\n\n", "X Y: 1\r\n\r\n"}) {
        CAPTURE(head);
        CHECK(refused(begin + head + "a") == 400);
    }
    CHECK(refused("\r\n" + begin + "Content-Length: 1\r\n\r\n\n") == 0);  // the body is free
    CHECK(refused(begin + "X:\t1  \r\nContent-Length: 2\r\n\r\n \n") == 0);
}

TEST_CASE("HTTP limits are errors of their own") {
    CHECK(refused(post("Content-Length: 5\r\n", ""), {.body_max = 4}) == 413);
    CHECK(refused(post("Content-Length: 4\r\n", ""), {.body_max = 4}) == 0);
    CHECK(refused(post("Content-Length: 99999999999999999999\r\n", "")) == 400);
    CHECK(refused("GET /" + std::string(5000, 'a')) == 414);
    CHECK(refused(post("A: " + std::string(40000, 'a') + "\r\n", "")) == 431);
    CHECK(refused("GET / HTTP/1.1\r\nHost: a\r\nA: " + std::string(1 << 20, 'a')) == 431);
    std::string many;
    for (int i = 0; i < 100; ++i) many += cat("A", i, ": b\r\n");
    CHECK(refused(post(many, "")) == 431);
    CHECK(refused(post(many, ""), {.headers_max = 101}) == 0);
}

TEST_CASE("HTTP requests that could be read in two ways are refused") {
    CHECK(refused(post("Content-Length: 1\r\nContent-Length: 2\r\n", "ab")) == 400);
    CHECK(refused(post("Content-Length: 1\r\nContent-Length: 1\r\n", "a")) == 400);
    CHECK(refused(post("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "a")) == 400);
    CHECK(refused(post("Transfer-Encoding: gzip, x\r\n", "")) == 411);
    CHECK(refused("GET / HTTP/1.1\r\n\r\n") == 400);
    CHECK(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == 400);
    CHECK(refused(post("X-Api-Key: a\r\nX-Api-Key: b\r\n", "")) == 400);
    CHECK(refused("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
    CHECK(refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n") == 505);
    CHECK(refused(post(std::string("A: b\0c\r\n", 8), "")) == 400);
    CHECK(refused("\x16\x03\x01 hello") == 400);
    CHECK(refused(post("Content-Encoding: gzip\r\n", "")) == 415);
    CHECK(refused(post("Expect: a-miracle\r\n", "")) == 417);
}

TEST_CASE("the headers of an HTTP request are announced once before its body") {
    RequestReader reader({});
    REQUIRE(reader.feed(post("Content-Length: 1\r\nExpect: 100-continue\r\n", "")) ==
            State::reading);
    CHECK(reader.take_headers_done());
    CHECK(reader.expects_continue());
    CHECK_FALSE(reader.take_headers_done());
    CHECK(reader.feed("a") == State::complete);
    reader.take();
    REQUIRE(reader.feed(post("Content-Length: 1\r\n", "")) == State::reading);
    CHECK(reader.take_headers_done());
    CHECK_FALSE(reader.expects_continue());
}

TEST_CASE("the head of an HTTP reply says how its body ends") {
    const HttpReply reply{404, "x", "text/plain", {{"Allow", "GET"}}};
    CHECK(http_head(reply, 1, true, true) ==
          "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n"
          "Allow: GET\r\nConnection: keep-alive\r\n\r\n");
    CHECK(http_head(reply, -1, true, false) ==
          "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
          "Allow: GET\r\nConnection: close\r\n\r\n");
    CHECK(http_chunk(std::string(17, 'a')) == "11\r\n" + std::string(17, 'a') + "\r\n");
    CHECK(percent_decoded("a%2Fb%zz%4") == "a/b%zz%4");
    CHECK(percent_decoded("%41") == "A");
}
