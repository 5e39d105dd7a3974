// How the arguments of a command are split, and the errors about unknown ones.
#include "tools/options/command_line.h"

#include <doctest/doctest.h>

#include "tests/tools/options/option_scene.h"

using namespace sluice;

namespace {

std::vector<std::string> values(const CommandLine& line, const char* name) {
    const auto found = line.flags.find(find_option(name));
    return found == line.flags.end() ? std::vector<std::string>() : found->second.values;
}

CommandLine split(const std::vector<std::string>& arguments) {
    auto line = read_command_line(Command::answer, arguments);
    INFO((line ? std::string() : line.error().message));
    REQUIRE(line);
    return std::move(*line);
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("command line: every way to give a value") {
    CHECK(values(split({"--predict", "5"}), "predict") == Texts{"5"});
    CHECK(values(split({"--predict=5"}), "predict") == Texts{"5"});
    CHECK(values(split({"--max-tokens=5"}), "predict") == Texts{"5"});
    CHECK(values(split({"-n", "5"}), "predict") == Texts{"5"});
    CHECK(values(split({"-n5"}), "predict") == Texts{"5"});
    CHECK(values(split({"-n-1"}), "predict") == Texts{"-1"});
    CHECK(values(split({"-p=x"}), "prompt") == Texts{"x"});
    CHECK(values(split({"--prompt="}), "prompt") == Texts{""});
    CHECK(values(split({"--prompt=a=b"}), "prompt") == Texts{"a=b"});
    CHECK(values(split({"-p", "--quiet"}), "prompt") == Texts{"--quiet"});
    CHECK(values(split({"-v"}), "verbose") == Texts{"true"});
    CHECK(values(split({"--verbose=off"}), "verbose") == Texts{"off"});
    CHECK(values(split({"-vp", "x"}), "prompt") == Texts{"x"});
    CHECK(values(split({"-vpx"}), "prompt") == Texts{"x"});
    CHECK(values(split({"--stop", "a", "--stop=b"}), "stop") == Texts{"a", "b"});
    CHECK(split({"-n5"}).flags.begin()->second.source == "-n");
}

TEST_CASE("command line: words, lists of values, and what follows --") {
    const CommandLine line = split({"m", "--verify", "a", "b", "-5", "-v", "n"});
    CHECK(line.words == Texts{"m", "n"});
    CHECK(values(line, "verify") == Texts{"a", "b", "-5"});
    CHECK(split({"-", "-5"}).words == Texts{"-", "-5"});
    CHECK(split({"--", "-v", "--"}).words == Texts{"-v", "--"});
    CHECK(split({"--verify", "a", "--", "m"}).words == Texts{"m"});
}

TEST_CASE("command line: a missing value is named with its flag") {
    Scene s;
    CHECK(contains(s.bad({"m", "-n"}), "--predict: a value is missing: --predict N"));
    CHECK(contains(s.bad({"m", "--verify"}), "--verify: a value is missing"));
    CHECK(contains(s.bad({"bench", "m", "--only"}), "(see sluice bench --help)"));
}

TEST_CASE("an unknown flag: the nearest one, what replaces it, or which command has it") {
    Scene s;
    const auto said = [&](const char* flag, const char* answer) {
        const std::string message = s.bad({"m", flag, "1"});
        CAPTURE(message);
        CHECK(contains(message, flag));
        CHECK(contains(message, answer));
        CHECK(contains(message, "(see sluice --help)"));
    };
    said("--temprature", "unknown flag --temprature; did you mean --temperature?");
    said("--ctx", "did you mean --ctx-size?");
    said("--effort", "did you mean --reasoning-effort?");
    said("-temp", "did you mean --temp?");
    said("-ngl", "--vram SIZE");
    said("--n-gpu-layers", "--vram SIZE");
    said("--trace", "unknown flag --trace: --profile FILE");
    said("--only", "--only: sluice does not take it; sluice bench does");
    CHECK_FALSE(contains(s.bad({"m", "--qqqqqq"}), "mean"));
    CHECK_FALSE(contains(s.bad({"m", "-q"}), "mean"));
    CHECK(contains(s.bad({"m", "-nfoo"}), "unknown flag -nfoo"));
    CHECK(contains(s.bad({"m", "-vx"}), "unknown flag -x"));
    CHECK(contains(s.bad({"m", "--help-mrkdown"}), "unknown flag"));
}

TEST_CASE("an unknown command is named, with the nearest one") {
    Scene s;
    const auto alone = [](std::vector<std::string> arguments) {
        auto out = parse_options(arguments, fake_environment);
        REQUIRE_FALSE(out);
        CHECK(out.error().code == Code::usage);
        return out.error().message;
    };
    CHECK(contains(alone({"inspct"}),
                   "unknown command \"inspct\", and no such model; did you mean "
                   "inspect? (see sluice --help)"));
    CHECK(contains(alone({"inspct", "m", "--check"}), "did you mean inspect?"));
    CHECK(contains(alone({"nosuch"}), "unknown command \"nosuch\", and no such model (see"));
    CHECK(contains(alone({"nosuch", "m"}), "unknown command \"nosuch\""));
    CHECK(contains(alone({"help", "bnch"}), "unknown command \"bnch\"; did you mean bench?"));
    CHECK(contains(alone({"help", "bench", "x"}), "one command"));
    CHECK(contains(s.bad({"./m", "n"}), "unexpected \"n\" after the model"));
    CHECK(contains(s.bad({"selftest", "m"}), "unexpected \"m\": sluice selftest takes no model"));
    CHECK(s.good({"nosuch", "-p", "x"}).engine.locations ==
          Texts{"nosuch"});  // the load reports it
}
