// Which options go together, and where their values are from.
#include <doctest/doctest.h>

#include <array>

#include "io/text.h"
#include "tests/tools/options/option_scene.h"
#include "tools/terminal/flag_origin.h"

using namespace sluice;

TEST_CASE("verify: a flag that only an answer can use is refused by name") {
    Scene s;
    const std::vector<std::pair<std::string, std::string>> useless = {
        {"-p", "x"},
        {"-f", "x"},
        {"-n", "3"},
        {"--max-tokens", "3"},
        {"--stop", "x"},
        {"--loop-guard", "16"},
        {"--temp", "0"},
        {"--temperature", "0"},
        {"--top-k", "1"},
        {"--top-p", "1"},
        {"--min-p", "0"},
        {"--repeat-penalty", "1"},
        {"--seed", "1"},
        {"--system-prompt", "x"},
        {"--reasoning", "on"},
        {"--reasoning-effort", "5"},
        {"--system-prompt-file", "x"}};
    for (const auto& [flag, value] : useless) {
        const auto message = s.bad({"m", flag, value, "--verify", "t"});
        CAPTURE(message);
        CHECK(message.starts_with("--verify: "));
        CHECK(contains(message, flag));
        CHECK(contains(message, "the trace fixes the prompt"));
    }
    for (const char* flag : {"--ignore-eos", "--show-reasoning"}) {
        CHECK(contains(s.bad({"m", "--verify", "t", flag}), flag));
    }
    for (const char* flag : {"--json", "--stats", "--show-timings", "--no-stream"}) {
        CHECK(contains(s.bad({"m", "--verify", "t", flag}),
                       cat(flag, " cannot be combined with it; its report is one line per trace")));
    }
    CHECK(contains(s.bad({"m", "--verify", "t", "--messages", "x"}), "--messages"));
}

TEST_CASE("verify: flags that place and read the model are accepted, lasting values are ignored") {
    Scene s;
    const auto o = s.good({"m",         "--verify",
                           "t",         "-c",
                           "100",       "--chunk",
                           "7",         "--ram",
                           "2GiB",      "--index-keys",
                           "reference", "--record-routes",
                           "r",         "--profile",
                           "s",         "--io",
                           "threads",   "--prefetch",
                           "2",         "--quiet",
                           "-t",        "1"});
    CHECK(o.traces == std::vector<std::string>{"t"});
    CHECK(o.engine.context == 100);
    variables = {
        {"SLUICE_TEMP", "0.5"},      {"SLUICE_PREDICT", "200"},         {"SLUICE_STOP", "x"},
        {"SLUICE_REASONING", "off"}, {"SLUICE_REASONING_EFFORT", "50"}, {"SLUICE_STATS", "on"}};
    write_file(s.config, "system-prompt = \"a\"\nsystem-prompt-file = \"b\"\nseed = 3\n");
    CHECK(s.good({"m", "--verify", "t", "-c", "100"}).temperature == 0.5);
    CHECK_FALSE(s.bad({"m", "-c", "100"}).empty());
}

TEST_CASE("an error names the variable or line that a value is from, not a flag nobody gave") {
    Scene s;
    variables = {{"SLUICE_TEMP", "abc"}};
    CHECK(s.bad({"m"}).starts_with("SLUICE_TEMP: \"abc\""));
    variables.clear();
    write_file(s.config, "temp = \"abc\"\n");
    CHECK(s.bad({"m"}).starts_with(s.config + " line 1: temp: \"abc\""));
    write_file(s.config, "\nstop = [\"a\", \"\"]\n");
    CHECK(contains(s.bad({"m"}), "(--stop is from " + s.config + " line 2: stop)"));
    write_file(s.config, "predict = 200\n");
    variables = {{"SLUICE_CTX_SIZE", "100"}};
    CHECK(contains(s.bad({"m"}), "(-n is from " + s.config +
                                     " line 1: predict, "
                                     "-c is from SLUICE_CTX_SIZE)"));
    CHECK(contains(s.bad({"m", "-n", "300"}), "(-c is from SLUICE_CTX_SIZE)"));
    CHECK_FALSE(contains(s.bad({"m", "-n", "300", "-c", "100"}), "is from"));
}

TEST_CASE("origins: only of flags that a message names whole, once each") {
    const std::array<FlagOrigin, 2> origins = {FlagOrigin{{"-c", "--ctx-size"}, "SLUICE_CTX_SIZE"},
                                               FlagOrigin{{"--ram"}, "f line 1: ram"}};
    CHECK(with_origins("--ram 9 TiB is more", origins) ==
          "--ram 9 TiB is more (--ram is from f line 1: ram)");
    CHECK(with_origins("full (-c)", origins) == "full (-c) (-c is from SLUICE_CTX_SIZE)");
    for (const char* other : {"--vram", "--ram-disk", "x--ram", "a/--ram", "-chunk", "",
                              "f line 1: ram: --ram holds no model"}) {
        CHECK(with_origins(other, origins) == other);
    }
    CHECK(with_origins("--ram-x, --ram", origins) ==
          "--ram-x, --ram (--ram is from f line 1: ram)");
}
