#include "tools/options/options.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/tools/options/option_scene.h"
#include "tools/options/config_file.h"
#include "tools/options/option_table.h"

using namespace sluice;

TEST_CASE("io: a paced drive, or several") {
    Scene s;
    const Options one = s.good({"m", "--io", "paced:8.8GB,80us"});
    CHECK(one.engine.io == IoEngine::paced);
    REQUIRE(one.engine.paces.size() == 1);
    CHECK(one.engine.paces[0].bytes_s == 8.8e9);
    CHECK(one.engine.paces[0].latency_s == doctest::Approx(80e-6));
    const Options two = s.good({"m", "--io", "paced:512MiB+4.4GB,0.1ms"});
    REQUIRE(two.engine.paces.size() == 2);
    CHECK(two.engine.paces[0] == DrivePace{512.0 * 1024 * 1024, 0});
    CHECK(two.engine.paces[1].bytes_s == 4.4e9);
    CHECK(two.engine.paces[1].latency_s == doctest::Approx(1e-4));
    CHECK(s.good({"m", "--io", "uring"}).engine.paces.empty());
}

TEST_CASE("prompt cache: on, off, a folder, and a limit behind the last colon") {
    Scene s;
    CHECK(!s.good({"m"}).prompt_cache);
    CHECK(s.good({"m", "--prompt-cache", "on"}).prompt_cache == true);
    CHECK(s.good({"m", "--prompt-cache", "on"}).prompt_cache_folder.empty());
    CHECK(s.good({"m", "--prompt-cache", "off"}).prompt_cache == false);
    const auto given = [&](const char* value, const char* folder, uint64_t bytes) {
        CAPTURE(value);
        const Options o = s.good({"m", "--prompt-cache", value});
        CHECK(o.prompt_cache == true);
        CHECK(o.prompt_cache_folder == folder);
        CHECK(o.prompt_cache_bytes == bytes);
    };
    constexpr uint64_t gib = uint64_t{1} << 30;
    given("/a/b", "/a/b", 4 * gib);
    given("/a/b:2GiB", "/a/b", 2 * gib);
    given("a:b:1.5g", "a:b", gib * 3 / 2);
    given("a:b", "a:b", 4 * gib);
    given("./on", "./on", 4 * gib);
    given("a:2GiB/", "a:2GiB/", 4 * gib);
    given(":2GiB", ":2GiB", 4 * gib);
    given("a:", "a:", 4 * gib);
    CHECK(contains(s.bad({"m", "--prompt-cache", ""}), "empty"));
    CHECK(contains(s.bad({"m", "--prompt-cache", "a:0MiB"}), "more than 0"));
    for (const char* slip : {"a:80", "a:1e9", "a:4GiBB"})
        CHECK(contains(s.bad({"m", "--prompt-cache", slip}), "is no size"));
    CHECK(contains(s.bad({"m", "-p", "x", "--session", "f", "--profile", "f"}), "--session"));
}

TEST_CASE("a command may stand behind flags and their values") {
    Scene s;
    const auto command = [&](std::vector<std::string> arguments) {
        return s.good(std::move(arguments)).command;
    };
    CHECK(command({"--json", "inspect", "m"}) == Command::inspect);
    CHECK(command({"-v", "-t", "2", "bench", "m"}) == Command::bench);
    CHECK(command({"-p", "bench", "m"}) == Command::answer);
    CHECK(command({"--system-prompt=x", "-p", "q", "m"}) == Command::answer);
    CHECK(command({"m", "-p", "inspect"}) == Command::answer);
}

TEST_CASE("an error names a flag as it was typed") {
    Scene s;
    CHECK(s.bad({"m", "-n", "x"}).starts_with("-n: "));
    CHECK(s.bad({"m", "-nx1", "-n0"}).starts_with("unknown flag -nx1"));
    CHECK(s.bad({"m", "--max-tokens", "x"}).starts_with("--max-tokens: "));
    CHECK(s.bad({"m", "--max-tokens=x"}).starts_with("--max-tokens: "));
    CHECK(s.bad({"m", "-c", "0"}).starts_with("-c: "));
    CHECK(s.good({"m", "-p=hi", "-n=3"}).prompt == "hi");
    CHECK(s.good({"m", "-p=hi", "-n=3"}).predict == 3);
    CHECK(s.good({"m", "-p="}).prompt == "");
    CHECK(contains(s.bad({"m", "-p", "x", "--session", "-"}), "needs a file"));
}

TEST_CASE("model: positional, -m, several times") {
    Scene s;
    CHECK(s.good({"m1"}).engine.locations == std::vector<std::string>{"m1"});
    CHECK(s.good({"m1", "-m", "m2", "--model", "m3"}).engine.locations ==
          std::vector<std::string>{"m1", "m2", "m3"});
    CHECK(s.good({"-m", "m2"}).engine.locations == std::vector<std::string>{"m2"});
    CHECK(contains(s.bad({}), "no model"));
    CHECK(contains(s.bad({"-m", ""}), "empty"));
    CHECK(!s.bad({"m1", "m2"}).empty());
}

TEST_CASE("every name of a flag works and lands in its field") {
    Scene s;
    for (const char* name : {"-n", "--predict", "--n-predict", "--max-tokens"})
        CHECK(s.good({"m", name, "7"}).predict == 7);
    for (const char* name : {"--temp", "--temperature"})
        CHECK(s.good({"m", name, "0.5"}).temperature == 0.5);
    auto o = s.good({"m",
                     "--top-k",
                     "40",
                     "--top-p=0.9",
                     "--min-p",
                     "0.1",
                     "--repeat-penalty",
                     "1.1",
                     "-s",
                     "5",
                     "-c",
                     "100",
                     "-t",
                     "3",
                     "--chunk",
                     "64",
                     "--ram",
                     "2GiB",
                     "--cache-slots",
                     "off",
                     "--cache-policy",
                     "lru",
                     "--prefetch",
                     "3",
                     "--io",
                     "threads",
                     "--cpu-isa",
                     "scalar",
                     "--index-keys",
                     "reference",
                     "--record-routes",
                     "r.bin",
                     "--loop-guard",
                     "256",
                     "--reasoning",
                     "on",
                     "--reasoning-effort",
                     "max",
                     "--io-depth",
                     "8",
                     "--expert-parts",
                     "2",
                     "--experts-in-flight",
                     "6",
                     "--predictor",
                     "repeat",
                     "--cpu-experts",
                     "40%",
                     "--link",
                     "paced:14GB",
                     "--device",
                     "cuda:1"});
    CHECK(o.engine.cpu_experts == 40);
    CHECK(o.engine.link_rate == 14'000'000'000);
    CHECK(!s.good({"m", "--launches", "auto"}).engine.graphs);
    CHECK(!s.good({"m", "--launches", "auto"}).engine.kernels_overlap);
    CHECK(s.good({"m", "--launches", "graphs"}).engine.graphs == true);
    CHECK(s.good({"m", "--launches", "graphs"}).engine.kernels_overlap == false);
    CHECK(s.good({"m", "--launches", "both"}).engine.kernels_overlap == true);
    CHECK(s.good({"m", "--launches", "plain"}).engine.graphs == false);
    CHECK(!s.good({"m", "--cpu-experts", "auto"}).engine.cpu_experts);
    CHECK(s.good({"m", "--cpu-experts", "off"}).engine.cpu_experts == 0);
    CHECK(o.top_k == 40);
    CHECK(o.top_p == 0.9);
    CHECK(o.min_p == 0.1);
    CHECK(o.repeat_penalty == 1.1);
    CHECK(o.seed == 5);
    CHECK(o.engine.context == 100);
    CHECK(o.engine.threads == 3);
    CHECK(o.engine.chunk == 64);
    CHECK(o.engine.ram == uint64_t{2} << 30);
    CHECK(o.engine.cache_slots == 0);
    CHECK(o.engine.cache_policy == "lru");
    CHECK(o.engine.prefetch == 3);
    CHECK(o.engine.io == IoEngine::threads);
    CHECK(o.engine.isa == CpuIsa::scalar);
    CHECK(o.engine.index_keys == IndexKeys::reference);
    CHECK(o.engine.record_routes == "r.bin");
    CHECK(o.loop_guard == 256);
    CHECK(o.thinking());
    CHECK(o.effort == 100);
    CHECK(o.engine.ring_depth == 8);
    CHECK(o.engine.tuning.parts == 2);
    CHECK(o.engine.tuning.in_flight_max == 6);
    CHECK(o.engine.predictor == "repeat");
    CHECK(o.engine.device == "cuda:1");
    auto flags = s.good({"m", "--json", "--show-timings", "--no-stream", "--ignore-eos",
                         "--show-reasoning", "--quiet", "--offline", "--color", "on"});
    CHECK((flags.json && flags.show_timings && flags.no_stream));
    CHECK(s.good({"m", "--stats"}).stats);
    CHECK((flags.ignore_eos && flags.show_reasoning && flags.quiet));
    CHECK(flags.color == ColorChoice::on);
}

TEST_CASE("thinking is off unless it is asked for") {
    Scene s;
    CHECK_FALSE(s.good({"m"}).thinking());
    CHECK_FALSE(s.good({"m", "--reasoning", "auto"}).thinking());
    CHECK(s.good({"m", "--reasoning-effort", "low"}).thinking());
    CHECK(s.good({"m", "--reasoning", "on"}).thinking());
    CHECK(contains(s.bad({"m", "--reasoning", "off", "--reasoning-effort", "5"}), "--reasoning"));
}

TEST_CASE("a value may look like a flag, be empty, or hold brackets") {
    Scene s;
    CHECK(s.good({"m", "-p", "--temp"}).prompt == "--temp");
    CHECK(s.good({"m", "-p", "-"}).prompt == "-");
    CHECK(s.good({"m", "-p", "[a,b]"}).prompt == "[a,b]");
    CHECK(s.good({"m", "-p", "{}"}).prompt == "{}");
    CHECK(s.good({"m", "-p", ""}).prompt == "");
    CHECK(s.good({"m", "--prompt=", "-n", "3"}).prompt == "");
    CHECK(s.good({"m", "--prompt=", "-n", "3"}).predict == 3);
    CHECK(s.good({"m", "-p", "--stop="}).prompt == "--stop=");
    CHECK(s.good({"m", "--stop", "[x]", "--stop", "a,b"}).stop ==
          std::vector<std::string>{"[x]", "a,b"});
    CHECK(s.good({"m", "-s", "-1"}).seed == std::nullopt);
    CHECK(s.good({"m", "-n", "-1"}).predict == -1);
    CHECK(s.good({"m", "-n5"}).predict == 5);
    CHECK(s.good({"m", "-n", "29", "-c", "30"}).predict == 29);
    CHECK(s.good({"m", "-n", "-1", "-c", "30"}).predict == -1);
    CHECK(s.good({"m", "-c", "1"}).predict == -1);
    CHECK(contains(s.bad({"m", "-n", "30", "-c", "30"}), "context of 30"));
    CHECK(contains(s.bad({"record", "m", "-o", "f", "-n", "40", "-c", "30"}), "-n 40"));
    CHECK(s.good({"bench", "m", "-n", "40", "-c", "30"}).predict == 40);  // cut, and reported
    CHECK(s.good({"m", "-n", "1", "-n", "2"}).predict == 2);
}

TEST_CASE("edge values: accepted exactly, or refused with flag, value and range") {
    Scene s;
    CHECK(s.good({"m", "--temp", "0"}).temperature == 0.0);
    CHECK(s.good({"m", "--temp", "-0.0"}).temperature == 0.0);
    CHECK(s.good({"m", "--temp", "1e-30"}).temperature == 1e-30);
    CHECK(s.good({"m", "--top-p", "1"}).top_p == 1.0);
    CHECK(s.good({"m", "--top-k", "0"}).top_k == 0);
    const std::vector<std::pair<std::string, std::string>> refused = {{"--temp", "nan"},
                                                                      {"--temp", "-1"},
                                                                      {"--temp", "inf"},
                                                                      {"--temp", "\"0.7\""},
                                                                      {"--temp", "null"},
                                                                      {"--temp", ""},
                                                                      {"--top-p", "0"},
                                                                      {"--top-p", "1.1"},
                                                                      {"--top-p", "-1"},
                                                                      {"--top-k", "-1"},
                                                                      {"--top-k", "2147483648"},
                                                                      {"--top-k", "1.5"},
                                                                      {"--min-p", "1"},
                                                                      {"--min-p", "-0.1"},
                                                                      {"--repeat-penalty", "0"},
                                                                      {"--repeat-penalty", "nan"},
                                                                      {"-n", "0"},
                                                                      {"-n", "-223"},
                                                                      {"-n", "1.5"},
                                                                      {"-n", "9223372036854775808"},
                                                                      {"-c", "0"},
                                                                      {"-c", "x"},
                                                                      {"--seed", "-2"},
                                                                      {"--seed", "1e3"},
                                                                      {"-t", "0"},
                                                                      {"-t", "54263"},
                                                                      {"--ram", "12 GB"},
                                                                      {"--ram", "0"},
                                                                      {"--ram", "lots"},
                                                                      {"--launches", "on"},
                                                                      {"--cpu-experts", "101%"},
                                                                      {"--cpu-experts", "half"},
                                                                      {"--cpu-experts", "%"},
                                                                      {"--link", "14GB"},
                                                                      {"--link", "paced:"},
                                                                      {"--link", "paced:fast"},
                                                                      {"--link", "paced:0"},
                                                                      {"--cache-slots", "-1"},
                                                                      {"--cache-slots", "on"},
                                                                      {"--cache-policy", "mru"},
                                                                      {"--cache-policy", "belady"},
                                                                      {"--prefetch", "65"},
                                                                      {"--chunk", "0"},
                                                                      {"--index-keys", "theirs"},
                                                                      {"--device", "gpu"},
                                                                      {"--device", "cuda:x"},
                                                                      {"--cpu-isa", "sse"},
                                                                      {"--io", "aio"},
                                                                      {"--io", "paced"},
                                                                      {"--io", "paced:"},
                                                                      {"--io", "paced:fast"},
                                                                      {"--io", "paced:0"},
                                                                      {"--io", "paced:8GB,80"},
                                                                      {"--io", "paced:8GB,-1us"},
                                                                      {"--io", "paced:8GB,1m"},
                                                                      {"--io", "paced:8GB,11s"},
                                                                      {"--io", "paced:8GB+"},
                                                                      {"--reasoning", "maybe"},
                                                                      {"--reasoning-effort", "0"},
                                                                      {"--reasoning-effort", "101"},
                                                                      {"--color", "blue"},
                                                                      {"--log-level", "loud"},
                                                                      {"--stop", ""},
                                                                      {"--stop", "a\xff"},
                                                                      {"--loop-guard", "3"},
                                                                      {"--record-routes", ""},
                                                                      {"-f", ""}};
    for (const auto& [flag, value] : refused) {
        CAPTURE(flag);
        CAPTURE(value);
        auto message = s.bad({"m", flag, value});
        CHECK(contains(message, flag));
    }
    CHECK(contains(s.bad({"m", "--temp", "nan"}), "[0, infinity)"));
    CHECK(contains(s.bad({"m", "--io", "foo"}), "auto, uring, threads or paced:RATE"));
    CHECK(contains(s.bad({"m", "--reasoning-effort", "101"}),
                   "low, high, max or a whole number from 1 to 100"));
}

TEST_CASE("unknown flags, missing values and contradictions are refused") {
    Scene s;
    CHECK(contains(s.bad({"m", "--tempp", "1"}), "--tempp; did you mean --temp?"));
    CHECK(contains(s.bad({"m", "-n"}), "--predict"));
    CHECK(!s.bad({"m", "-p", "a", "-f", "b"}).empty());
    CHECK(!s.bad({"m", "--verify", "t", "-p", "a"}).empty());
    CHECK(!s.bad({"m", "--verify"}).empty());
    CHECK(!s.bad({"m", "--quiet", "--verbose"}).empty());
    CHECK(!s.bad({"m", "--json=maybe"}).empty());
    CHECK(!s.bad({"record", "m"}).empty());
    CHECK(!s.bad({"record", "m", "-o", "f", "--messages", "a", "-p", "b"}).empty());
    CHECK(!s.bad({"simulate"}).empty());
    CHECK(!s.bad({"inspect", "m", "-p", "x"}).empty());
    std::vector<std::string> many = {"m"};
    for (int i = 0; i < 17; ++i) many.insert(many.end(), {"--stop", "x"});
    CHECK(contains(s.bad(many), "16"));
}

TEST_CASE("typed together, flags of which one would have no effect are refused") {
    Scene s;
    CHECK(contains(s.bad({"m", "-p", "a", "--prompt", "b"}), "-p: given 2 times"));
    CHECK(contains(s.bad({"m", "-f", "a", "-f", "b"}), "-f: given 2"));
    CHECK(contains(s.bad({"record", "m", "-p", "a", "-o", "a", "-o", "b"}), "-o: given 2"));
    CHECK(contains(s.bad({"m", "-p", "a", "--profile", "x", "--profile=y"}), "--profile: given 2"));
    CHECK(contains(s.bad({"m", "--predictor", "none", "--prefetch", "2"}), "--prefetch"));
    CHECK(contains(s.bad({"m", "--quiet", "--stats"}), "--stats"));
    for (const char* off : {"off", "0"}) {
        CHECK(contains(
            s.bad({"m", "--cache-slots", off, "--vram-slots", off, "--cache-policy", "lru"}),
            "--cache-policy"));
    }
    CHECK(
        !s.bad({"m", "--device", "cpu", "--cache-slots", "off", "--cache-policy", "lru"}).empty());
    // Accepted: both have an effect, or one replaces the other.
    CHECK(s.good({"m", "-n", "3", "-n", "4"}).predict == 4);
    CHECK(s.good({"m", "--predictor", "none", "--prefetch", "off"}).engine.prefetch == 0);
    s.good(
        {"m", "--cache-slots", "off", "--cache-policy", "lru"});  // the cache in VRAM has a policy
    s.good({"simulate", "a", "--predictor", "none", "--prefetch", "2"});
    s.good({"m", "--quiet", "--stats=off"});
    write_file(s.config, "prefetch = 3\nstats = true\ncache-policy = \"lru\"\n");
    s.good({"m", "--predictor", "none"});
    s.good({"m", "--quiet"});
    s.good({"m", "--device", "cpu", "--cache-slots", "off"});
}

TEST_CASE("a typed flag overrides what contradicts it in a variable or a file") {
    Scene s;
    write_file(s.config, "quiet = true\nsystem-prompt = \"a\"\nvram = \"7GiB\"\n");
    variables = {{"SLUICE_REASONING", "off"}, {"SLUICE_NO_CALIBRATE", "1"}};
    const Options stats = s.good({"m", "--stats"});
    CHECK((stats.stats && !stats.quiet));
    CHECK(!s.good({"m", "-v"}).quiet);
    CHECK(s.good({"m", "--stats=off"}).quiet);
    CHECK(s.good({"m", "--system-prompt-file", "f"}).system_prompt.empty());
    CHECK(s.good({"m", "--reasoning-effort", "high"}).thinking());
    CHECK(s.good({"m", "--tune"}).engine.calibrate == Calibrate::thorough);
    CHECK(!s.good({"m", "--device", "cpu"}).engine.vram);
    CHECK(s.good({"m", "--device", "cuda"}).engine.vram);
    variables = {{"SLUICE_REASONING_EFFORT", "high"}};
    CHECK(s.good({"m", "--reasoning", "on"}).effort);
    CHECK(!s.good({"m", "--reasoning", "off"}).effort);
}

TEST_CASE("commands have their own options") {
    Scene s;
    auto verify = s.good({"m", "--verify", "a.json", "b", "c"});
    CHECK(verify.command == Command::answer);
    CHECK(verify.traces == std::vector<std::string>{"a.json", "b", "c"});
    auto record = s.good({"record", "m", "-o", "t.json", "-n", "9"});
    CHECK(record.command == Command::record);
    CHECK(record.output == "t.json");
    CHECK(s.good({"inspect", "m", "--check", "--json"}).check);
    auto simulate = s.good(
        {"simulate", "a", "b", "--cache-slots", "48,off,96", "--cache-policy", "lru,belady"});
    CHECK(simulate.route_files == std::vector<std::string>{"a", "b"});
    CHECK(simulate.slot_counts == std::vector<uint32_t>{48, 0, 96});
    CHECK(simulate.policies == std::vector<std::string>{"lru", "belady"});
    CHECK(s.good({"bench", "m", "--only", "gemv,drive"}).only ==
          std::vector<std::string>{"gemv", "drive"});
    CHECK(s.good({"./bench"}).engine.locations.front() == "./bench");
}

TEST_CASE("flag beats variable beats file beats default") {
    Scene s;
    CHECK(s.good({"m"}).predict == -1);
    write_file(s.config, "predict = 7\ntemp = 0.25 # cool\nmodel = [\"a\", 'b']\njson_x = 1\n");
    CHECK(contains(s.bad({"m"}), "json_x"));
    write_file(s.config, "predict = 7\ntemp = 0.25 # cool\nmodel = [\"a\", 'b']\n");
    CHECK(s.good({}).predict == 7);
    CHECK(s.good({}).temperature == 0.25);
    CHECK(s.good({}).engine.locations == std::vector<std::string>{"a", "b"});
    variables["SLUICE_PREDICT"] = "5";
    CHECK(s.good({"m"}).predict == 5);
    CHECK(s.good({"m", "-n", "3"}).predict == 3);
    variables = {{"SLUICE_N_PREDICT", "6"}, {"SLUICE_SOMETHING", "x"}, {"SLUICE_IGNORE_EOS", "on"}};
    CHECK(s.good({"m"}).predict == 6);
    CHECK(s.good({"m"}).ignore_eos);
    variables = {{"SLUICE_PREDICT", "many"}};
    CHECK(contains(s.bad({"m"}), "SLUICE_PREDICT"));
    CHECK(s.good({"m", "-n", "3"}).predict == 3);
    variables = {{"SLUICE_CTX_SIZE", ""}};  // empty counts as not set
    CHECK(s.good({"m"}).engine.context == 0);
}

TEST_CASE("errors of a file name file and line, and flags of one run are not keys") {
    Scene s;
    const std::vector<std::pair<std::string, std::string>> refused = {
        {"temp = \n", "line 1"},
        {"\n\ntemp 1\n", "line 3"},
        {"[bench]\n", "line 1"},
        {"temp = 1\ntemp = 2\n", "line 2"},
        {"prompt = \"x\"\n", "prompt"},
        {"verify = \"x\"\n", "verify"},
        {"temp = [1, 2]\n", "one value"},
        {"temp = \"x\n", "line 1"},
        {"temp = 1 2\n", "line 1"},
        {"temp = hot\n", "line 1"},
        {"temp = 1e999\n", "temp"},
        {"stop = []\n", "stop"},
        {"system-prompt = \"\\q\"\n", "escape"}};
    for (const auto& [text, part] : refused) {
        CAPTURE(text);
        write_file(s.config, text);
        CHECK(contains(s.bad({"m"}), part));
    }
    write_file(s.config, "stop = [\"a\", \"b\\n\"]\n\t# comment\nignore-eos = true\r\n");
    CHECK(s.good({"m"}).stop == std::vector<std::string>{"a", "b\n"});
    CHECK(s.good({"m"}).ignore_eos);
    write_file(s.config, "\xef\xbb\xbf# of an editor that marks its files\ntemp = 0.25\n");
    CHECK(s.good({"m"}).temperature == 0.25);
    write_file(s.config, "\xef\xbb\xbftemp = hot\n");
    CHECK(contains(s.bad({"m"}), "line 1: expected a value"));
    auto missing = parse_options({"m", "--config", s.folder / "no.toml"}, fake_environment);
    REQUIRE_FALSE(missing);
    CHECK(contains(missing.error().message, "--config"));
}

TEST_CASE("user file comes before system file, from XDG_CONFIG_HOME, else HOME") {
    TempFolder home;
    std::filesystem::create_directories(home / "xdg/sluice");
    std::filesystem::create_directories(home / ".config/sluice");
    write_file(home / "xdg/sluice/config.toml", "temp = 0.5\n");
    write_file(home / ".config/sluice/config.toml", "temp = 0.75\n");
    ::setenv("HOME", home.path().c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", (home / "xdg").c_str(), 1);
    variables.clear();
    CHECK(parse_options({"./m"}, fake_environment)->options.temperature == 0.5);
    ::unsetenv("XDG_CONFIG_HOME");
    CHECK(parse_options({"./m"}, fake_environment)->options.temperature == 0.75);
}

TEST_CASE("plan: the rate of the drive is plausible and given once") {
    Scene s;
    CHECK(s.good({"plan", "m", "--drive", "1KB"}).drive_rate == 1000);
    CHECK(contains(s.bad({"plan", "m", "--drive", "1"}), "--drive: rate '1': must be 1KB"));
    CHECK(contains(s.bad({"plan", "m", "--drive", "0"}), "1KB"));
    CHECK(contains(s.bad({"plan", "m", "--drive", "2GB", "--io", "paced:1GB"}), "--io paced"));
    CHECK(contains(s.bad({"plan", "--shape", "x", "--mirror", "m"}), "--mirror"));
    CHECK(contains(s.bad({"plan", "--shape", "x", "-m", "m"}), "one of them"));
}

TEST_CASE("an option of one run is neither a variable nor a key") {
    Scene s;
    variables["SLUICE_TUNE"] = "on";
    CHECK(s.good({"m"}).engine.calibrate == Calibrate::automatic);
}

TEST_CASE("two outputs cannot be one file") {
    Scene s;
    CHECK(contains(s.bad({"m", "-p", "x", "--profile", "a", "--record-routes", "./a"}),
                   "--profile and --record-routes: both name a"));
    CHECK(
        contains(s.bad({"record", "m", "-o", "/tmp/x/../b", "--profile", "/tmp/b"}), "both name"));
    CHECK(s.good({"m", "-p", "x", "--profile", "a", "--record-routes", "b"}).profile_file == "a");
}
