#include "tools/server/access.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

Admission ask(const AccessRules& rules, Headers headers, bool needs_key = true) {
    HttpRequest request;
    request.headers = std::move(headers);
    return admit(rules, request, "10.0.0.7", "10.0.0.1", needs_key);
}

}  // namespace

TEST_CASE("only names of the HTTP server itself are taken for Host") {
    const AccessRules rules{{"box.lan"}, {}, {}};
    for (const char* host : {"localhost", "LocalHost:8080", "127.0.0.1:1", "[::1]", "[::1]:80",
                             "10.0.0.1:8080", "box.lan", "BOX.LAN:443"}) {
        CAPTURE(host);
        CHECK(ask(rules, {{"host", host}}).refused == 0);
    }
    for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                             "10.0.0.2", "", "[::1", "box.lan@evil.example", "::1"}) {
        CAPTURE(host);
        CHECK(ask(rules, {{"host", host}}).refused == 403);
    }
    CHECK(ask(rules, {}).refused == 403);
}

TEST_CASE("a page of another site may not use the HTTP server unless it is allowed") {
    const AccessRules rules{{}, {"https://friend.example"}, {}};
    const auto from = [&](const char* origin) {
        return ask(rules, {{"host", "localhost:8080"}, {"origin", origin}});
    };
    CHECK(from("http://localhost:8080").refused == 0);
    CHECK(from("http://localhost:8080").cors_origin.empty());
    CHECK(from("https://friend.example").refused == 0);
    CHECK(from("https://friend.example").cors_origin == "https://friend.example");
    for (const char* origin : {"http://localhost:8081", "http://evil.example", "null", "",
                               "https://friend.example.evil.example", "http://friend.example"}) {
        CAPTURE(origin);
        CHECK(from(origin).refused == 403);
        CHECK(from(origin).cors_origin.empty());
    }
    const AccessRules any{{}, {"*"}, {}};
    CHECK(ask(any, {{"host", "localhost"}, {"origin", "http://a.b"}}).cors_origin == "*");
}

TEST_CASE("a key is asked for in either header and names the client in the queue") {
    const AccessRules rules{{}, {}, {"alpha", "beta"}};
    const auto with = [&](const char* name, const char* value) {
        return ask(rules, {{"host", "localhost"}, {name, value}});
    };
    CHECK(with("authorization", "Bearer alpha").client == "key 1 10.0.0.7");
    CHECK(with("authorization", "bearer beta").client == "key 2 10.0.0.7");
    CHECK(with("x-api-key", "beta").refused == 0);
    for (const char* value : {"Bearer alph", "Bearer alphaa", "Bearer ", "Bearer", "alpha",
                              "Basic alpha", "Bearer Alpha", ""}) {
        CAPTURE(value);
        CHECK(with("authorization", value).refused == 401);
    }
    CHECK(with("x-api-key", "").refused == 401);
    CHECK(ask(rules, {{"host", "localhost"}}, false).refused == 0);
    CHECK(with("x-api-key", "secret").problem.find("secret") == std::string::npos);
}

TEST_CASE("texts are compared to their end") {
    CHECK(equal_in_constant_time("abc", "abc"));
    CHECK_FALSE(equal_in_constant_time("abc", "abd"));
    CHECK_FALSE(equal_in_constant_time("abc", "abcabc"));
    CHECK_FALSE(equal_in_constant_time("abc", "ab"));
    CHECK_FALSE(equal_in_constant_time("abc", ""));
    CHECK_FALSE(equal_in_constant_time("", ""));
}

TEST_CASE("keys come from the text or from a file and are in no error") {
    const TempFolder folder;
    const auto file = folder.path() / "keys";
    std::ofstream(file) << "one\r\n\ntwo\n";
    CHECK(*read_api_keys("plain") == std::vector<std::string>{"plain"});
    CHECK(*read_api_keys("@" + file.string()) == std::vector<std::string>{"one", "two"});
    CHECK(read_api_keys("@/does/not/exist").error().code == Code::usage);
    auto spaced = read_api_keys("se cret");
    REQUIRE_FALSE(spaced);
    CHECK(spaced.error().message.find("cret") == std::string::npos);
    std::ofstream(file) << "\n";
    CHECK(read_api_keys("@" + file.string()).error().message == "--api-key: there is no key");
}
