// --attach and what may stand beside it.
#include "tests/tools/options/option_scene.h"

using namespace sluice;

namespace {

constexpr const char* url = "http://127.0.0.1:8080";

}  // namespace

TEST_CASE("a server can be given as a flag or as a word or as a variable or in a file") {
    Scene s;
    const auto given = [&](const Options& options, const std::string& source, bool typed) {
        CHECK(options.command == Command::answer);
        CHECK(options.attach.url == url);
        CHECK(options.attach.source == source);
        CHECK(options.attach.typed == typed);
        CHECK(options.attach.loading_flag == "");
    };
    given(s.good({"--attach", url}), "--attach", true);
    given(s.good({"--server", url, "-p", "x"}), "--server", true);
    given(s.good({url}), "--attach", true);
    given(s.good({"m", url}), "--attach", true);
    CHECK(s.good({url, "m"}).engine.locations == std::vector<std::string>{"m"});
    const auto chat = parse_options({"chat", "--config", s.config, url}, fake_environment);
    REQUIRE(chat);
    given(chat->options, "--attach", true);
    variables = {{"SLUICE_SERVER", url}};
    given(s.good({}), "SLUICE_SERVER", false);
    given(s.good({"m"}), "SLUICE_SERVER", false);
    variables = {{"SLUICE_ATTACH", url}};
    given(s.good({}), "SLUICE_ATTACH", false);
    variables.clear();
    write_file(s.config, "server = \"http://127.0.0.1:8080\"\n");
    CHECK(contains(s.good({}).attach.source, "line 1: server"));
    CHECK(s.good({"m", "--attach", "off"}).attach.url == "");
    CHECK(contains(s.bad({"--attach", "off"}), "no model"));
    CHECK(contains(s.bad({"--attach", ""}), "address is empty"));
    CHECK(contains(s.bad({url, "--attach", "off"}), "only one server"));
}

TEST_CASE("flags about loading do not go with a server that was typed") {
    Scene s;
    for (const std::vector<std::string>& flag : {std::vector<std::string>{"--ram", "4GiB"},
                                                 {"-t", "2"},
                                                 {"-c", "100"},
                                                 {"--tune"},
                                                 {"--revision", "x"},
                                                 {"--prompt-cache", "off"},
                                                 {"--io", "uring"},
                                                 {"--record-routes", "r"},
                                                 {"--index-keys", "own"}}) {
        std::vector<std::string> line = {"--attach", url};
        line.insert(line.end(), flag.begin(), flag.end());
        CAPTURE(flag.front());
        CHECK(contains(s.bad(line), "is about a model that is loaded here"));
        line.push_back("m");
        CHECK(contains(s.bad(line), "is about a model that is loaded here"));
    }
    // What a variable says waits for a model.
    variables = {{"SLUICE_RAM", "4GiB"}};
    CHECK(s.good({"--attach", url}).attach.loading_flag == "");
    // With a model and a server that was not typed, the model is loaded.
    variables = {{"SLUICE_SERVER", url}};
    CHECK(s.good({"m", "--ram", "4GiB"}).attach.loading_flag == "--ram");
    CHECK(
        contains(s.bad({"--ram", "4GiB"}), "SLUICE_SERVER http://127.0.0.1:8080: --ram is about"));
}

TEST_CASE("commands that need a model do not take that of a server") {
    Scene s;
    variables = {{"SLUICE_SERVER", url}};
    CHECK(contains(s.bad({"--verify", "trace"}), "no model"));
    CHECK(contains(s.bad({"bench"}), "no model"));
    CHECK(contains(s.bad({"record", "-o", "x", "-p", "x"}), "no model"));
    variables.clear();
    CHECK(contains(s.bad({"m", "--attach", url, "--verify", "trace"}), "--verify"));
    CHECK(contains(s.bad({"bench", "m", "--attach", url}), "--attach"));
}
