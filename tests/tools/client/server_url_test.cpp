#include "tools/client/server_url.h"

#include <doctest/doctest.h>

using namespace sluice;

namespace {

std::string read(const char* text) {
    const auto url = parse_server_url(text);
    return url ? url->text() : url.error().message;
}

bool refused(const char* text, const char* why) {
    const auto url = parse_server_url(text);
    CAPTURE(text);
    CAPTURE((url ? url->text() : url.error().message));
    return !url && url.error().code == Code::usage &&
           url.error().message.find(why) != std::string::npos;
}

}  // namespace

TEST_CASE("a server's address is read as users and other clients write it") {
    const auto url = parse_server_url("http://127.0.0.1:8080");
    REQUIRE(url);
    CHECK(url->host == "127.0.0.1");
    CHECK(url->port == 8080);
    CHECK(url->authority == "127.0.0.1:8080");
    CHECK(url->prefix.empty());
    for (const char* same : {"http://127.0.0.1:8080/", "HTTP://127.0.0.1:8080/v1",
                             "http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080//"}) {
        CAPTURE(same);
        CHECK(read(same) == "http://127.0.0.1:8080");
    }
    CHECK(read("http://box_1.lan") == "http://box_1.lan");
    CHECK(parse_server_url("http://box.lan")->port == 80);
    CHECK(read("http://box.lan:80") == "http://box.lan");
    CHECK(read("http://box.lan/llm/v1/") == "http://box.lan/llm");
    CHECK(read("http://box.lan/v10") == "http://box.lan/v10");
    const auto v6 = parse_server_url("http://[fe80::1]:8080");
    REQUIRE(v6);
    CHECK(v6->host == "fe80::1");
    CHECK(v6->authority == "[fe80::1]:8080");
    CHECK(v6->text() == "http://[fe80::1]:8080");
}

TEST_CASE("what is no server's address is refused with the reason") {
    CHECK(refused("127.0.0.1:8080", "begins with http://"));
    CHECK(refused("", "begins with http://"));
    CHECK(refused("ftp://a", "begins with http://"));
    CHECK(refused("https://a", "ssh -L"));
    CHECK(refused("http://", "no host"));
    CHECK(refused("http:///v1", "no host"));
    CHECK(refused("http://:80", "no host"));
    CHECK(refused("http://[::1", "must end"));
    CHECK(refused("http://[::1%eth0]", "must end"));
    CHECK(refused("http://[]:80", "no host"));
    for (const char* port : {"http://a:", "http://a:0", "http://a:65536", "http://a:-1",
                             "http://a:x", "http://a:/v1"}) {
        CHECK(refused(port, "from 1 to 65535"));
    }
    CHECK(refused("http://me@a", "--api-key"));
    CHECK(refused("http://a:80x", "no such characters"));
    CHECK(refused("http://a/?x=1", "no query"));
    CHECK(refused("http://a/b c", "no such characters"));
    CHECK(refused("http://a/\r\nX: y", "no such characters"));
    CHECK(refused("http://a\r\nX: y", "no such characters"));
    CHECK(refused("http://\xc3\xbc.de", "no host"));
    CHECK(read("http://\x1b[31mred/").find('\x1b') == std::string::npos);
    CHECK(refused(("http://" + std::string(300, 'a')).c_str(), "no host"));
}
