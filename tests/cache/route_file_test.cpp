#include "cache/route_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <random>

#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

const RouteFileHeader header = {3, 10, 2, 4096, "a model"};
constexpr size_t header_bytes = 32 + 7;
constexpr size_t token_bytes = 4 + 2 * 3 * 2 * 2;

void record(const std::filesystem::path& path, int tokens) {
    auto recorder = RouteRecorder::create(path, header);
    REQUIRE(recorder);
    for (int32_t token = 0; token < tokens; ++token) {
        const int32_t a = token % 9;
        for (int32_t layer = 0; layer < 3; ++layer) {
            const std::vector<int32_t> chosen = {a, a + 1}, guesses = {9 - a};
            if (layer == 2) {
                (*recorder)->step({layer, chosen, {}});
            } else {
                (*recorder)->step({layer, chosen, guesses});
            }
        }
        REQUIRE((*recorder)->token_done(token % 2 == 0, token % 4 != 0));
    }
}

Error error_of(const std::filesystem::path& path) {
    auto routes = read_route_file(path);
    REQUIRE_FALSE(routes);
    CHECK(routes.error().message.find(path.filename().string()) != std::string::npos);
    return routes.error();
}

}  // namespace

TEST_CASE("what was recorded is read back") {
    TempFolder folder;
    record(folder / "r", 20);
    CHECK(std::filesystem::file_size(folder / "r") == header_bytes + 20 * token_bytes);
    auto routes = read_route_file(folder / "r");
    REQUIRE(routes);
    CHECK(routes->header.layers == 3);
    CHECK(routes->header.experts == 10);
    CHECK(routes->header.top_k == 2);
    CHECK(routes->header.expert_bytes == 4096);
    CHECK(routes->header.model == "a model");
    REQUIRE(routes->tokens.size() == 20);
    for (int32_t i = 0; i < 20; ++i) {
        const RecordedToken& token = routes->tokens[static_cast<size_t>(i)];
        const int32_t a = i % 9;
        CHECK(token.prompt == (i % 2 == 0));
        CHECK(token.chunk_end == (i % 4 != 0));
        CHECK(token.chosen == std::vector<int32_t>{a, a + 1, a, a + 1, a, a + 1});
        CHECK(token.guesses == std::vector<int32_t>{9 - a, -1, 9 - a, -1, -1, -1});
    }
}

TEST_CASE("a file cut anywhere gives its complete tokens or is refused") {
    TempFolder folder;
    record(folder / "r", 3);
    const std::string whole = read_file(folder / "r");
    for (size_t length = 0; length <= whole.size(); ++length) {
        CAPTURE(length);
        write_file(folder / "cut", whole.substr(0, length));
        auto routes = read_route_file(folder / "cut");
        if (length < header_bytes) {
            REQUIRE_FALSE(routes);
            CHECK(routes.error().code == Code::corrupt);
        } else {
            REQUIRE(routes);
            CHECK(routes->tokens.size() == (length - header_bytes) / token_bytes);
        }
    }
}

TEST_CASE("a hostile file is refused with its name, without allocating much or crashing") {
    TempFolder folder;
    record(folder / "r", 3);
    const std::string good = read_file(folder / "r");
    const auto with = [&](size_t at, std::initializer_list<int> bytes) {
        std::string bad = good;
        for (int byte : bytes) bad[at++] = static_cast<char>(byte);
        write_file(folder / "bad", bad);
        return error_of(folder / "bad");
    };
    CHECK(with(0, {'G', 'G', 'U', 'F'}).message.find("not a route file") != std::string::npos);
    CHECK(with(7, {'2'}).code == Code::corrupt);
    for (size_t field : {8, 12, 16, 20}) {
        CHECK(with(field, {0xff, 0xff, 0xff, 0xff}).message.find("out of range") !=
              std::string::npos);
        CHECK(with(field, {0xff, 0xff, 0xff, 0x7f}).code == Code::corrupt);
        if (field != 20) CHECK(with(field, {0, 0, 0, 0}).code == Code::corrupt);
    }
    CHECK(with(16, {11, 0, 0, 0}).code == Code::corrupt);  // top 11 of 10
    const size_t first = header_bytes;
    CHECK(with(first, {4}).message.find("token 0") != std::string::npos);
    CHECK(with(first + 2, {1}).code == Code::corrupt);
    CHECK(with(first + token_bytes + 4, {10, 0}).message.find("token 1, layer 0") !=
          std::string::npos);
    CHECK(with(first + 4, {1, 0}).code == Code::corrupt);        // 1, 1: repeated
    CHECK(with(first + 4, {0xff, 0xff}).code == Code::corrupt);  // a gap, then an expert
    CHECK(with(first + 16 + 2, {9, 0}).code == Code::corrupt);   // guesses 9, 9
    CHECK(error_of(folder / "absent").code == Code::not_found);
    CHECK(error_of(folder.path()).message.size() > 0);

    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) {
        std::string bad = good;
        for (uint64_t n = 1 + random() % 4; n > 0; --n) {
            bad[random() % bad.size()] = static_cast<char>(random());
        }
        write_file(folder / "bad", bad);
        auto routes = read_route_file(folder / "bad");
        if (!routes) continue;
        for (const RecordedToken& token : routes->tokens) {
            for (int32_t expert : token.chosen) CHECK(expert < routes->header.experts);
        }
    }
}

TEST_CASE("recording reports what it cannot write") {
    TempFolder folder;
    auto nowhere = RouteRecorder::create(folder / "no" / "such", header);
    REQUIRE_FALSE(nowhere);
    CHECK(nowhere.error().code == Code::usage);
    CHECK_FALSE(RouteRecorder::create(folder / "r", {0, 10, 2, 1, "x"}));
    CHECK_FALSE(RouteRecorder::create(folder / "r", {3, 70000, 2, 1, "x"}));
    CHECK_FALSE(RouteRecorder::create(folder / "r", {3, 10, -2, 1, "x"}));

    auto recorder = RouteRecorder::create(folder / "r", header);
    REQUIRE(recorder);
    const std::vector<int32_t> fine = {1, 2}, wrong = {1, 10}, negative = {-1, 2};
    for (const RouteStep& step : {RouteStep{0, wrong, {}}, RouteStep{3, fine, {}},
                                  RouteStep{-1, fine, {}}, RouteStep{0, fine, negative}}) {
        (*recorder)->step(step);
        auto done = (*recorder)->token_done(false);
        REQUIRE_FALSE(done);
        CHECK(done.error().code == Code::usage);
    }
    (*recorder)->step({0, fine, {}});
    CHECK((*recorder)->token_done(false));
    CHECK_FALSE(read_route_file(folder / "r"));  // it has no name yet
    CHECK((*recorder)->keep());
    CHECK((*recorder)->keep());
    auto routes = read_route_file(folder / "r");
    REQUIRE(routes);
    CHECK(routes->tokens.size() == 1);

    // A file that cannot grow, as on a full drive.
    rlimit before = {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit tight = {8, before.rlim_max};
    std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
    auto full = RouteRecorder::create(folder / "full", header);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    REQUIRE_FALSE(full);
    CHECK(full.error().code == Code::io);
    CHECK(full.error().message.find("File too large") != std::string::npos);
    CHECK_FALSE(RouteRecorder::create("/dev/full", header));
}
