#include "tools/options/help.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "cache/policy.h"
#include "tests/tools/options/option_scene.h"
#include "tools/options/command_table.h"
#include "tools/options/option_table.h"

using namespace sluice;

namespace {

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(line);
    return out;
}

// Whether `text` names `flag` as a whole.
bool names(const std::string& text, const std::string& flag) {
    for (size_t at = text.find(flag); at != text.npos; at = text.find(flag, at + 1)) {
        const char next = (text + ' ')[at + flag.size()];
        if (!std::isalnum(static_cast<unsigned char>(next)) && next != '-') return true;
    }
    return false;
}

// Whether a row of the list in `text` is that of `flag`.
bool has_row(const std::string& text, const std::string& flag) {
    for (const std::string& line : lines(text)) {
        if (line.starts_with("  -") && names(line.substr(0, line.find("  ", 2)), flag)) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("help names every flag of its command once, in one of two parts that fit two screens") {
    for (const CommandSpec& command : command_table()) {
        CAPTURE(command.name);
        const std::string usual = help_text(command.command, HelpPart::usual);
        const std::string more = help_text(command.command, HelpPart::advanced);
        for (const std::string* text : {&usual, &more}) {
            CHECK(lines(*text).size() <= 100);
            for (const std::string& line : lines(*text)) {
                CAPTURE(line);
                CHECK(line.size() <= 100);
                CHECK((line.empty() || line.back() != ' '));
            }
        }
        for (const OptionSpec& spec : option_table()) {
            if (!(spec.commands & bit(command.command)) || spec.is(hidden)) continue;
            for (const std::string& flag : spec.flags()) {
                if (flag == "--help-advanced") continue;
                CAPTURE(flag);
                CHECK(has_row(usual, flag) != (usual != more && has_row(more, flag)));
            }
        }
    }
}

TEST_CASE("help: rarely used options stand apart where the list is long") {
    const std::string usual = help_text(Command::answer, HelpPart::usual);
    const std::string more = help_text(Command::answer, HelpPart::advanced);
    for (const char* flag :
         {"--launches", "--expert-parts", "--experts-in-flight", "--io-depth", "--link",
          "--index-keys", "--loop-guard", "--vram-slots", "--chunk", "--cache-policy"}) {
        CAPTURE(flag);
        CHECK_FALSE(contains(usual, flag));
        CHECK(contains(more, flag));
    }
    CHECK(contains(usual, "--help-advanced"));
    CHECK(help_text(Command::simulate, HelpPart::usual) ==
          help_text(Command::simulate, HelpPart::advanced));
    CHECK_FALSE(contains(help_text(Command::simulate, HelpPart::usual), "--help-advanced"));
    CHECK(contains(help_text(Command::simulate, HelpPart::usual), "--cache-policy"));
}

TEST_CASE("help: policies are those that are registered") {
    const std::string more = help_text(Command::answer, HelpPart::advanced);
    for (const std::string& name : policy_names()) CHECK(contains(more, name));
    CHECK_FALSE(contains(more, "{"));
}

TEST_CASE("help says which options are neither a variable nor a key") {
    const std::string text = help_text(Command::answer, HelpPart::usual);
    const std::string listed = text.substr(text.find("a single run"));
    for (const char* flag : {"--prompt", "--tune", "--profile", "--json", "--verify"}) {
        CHECK(names(listed, flag));
    }
    CHECK_FALSE(contains(listed, "--ctx-size"));
    CHECK_FALSE(contains(listed, "--help"));
}

TEST_CASE("help, version and devices are shown instead of running, whatever else is wrong") {
    Scene s;
    const auto shown = [&](std::vector<std::string> arguments) {
        auto out = parse_options(arguments, fake_environment);
        REQUIRE(out);
        return std::pair(out->options.show, out->options.command);
    };
    variables = {{"SLUICE_TEMP", "hot"}};
    CHECK(shown({"--help"}) == std::pair(Show::help, Command::answer));
    CHECK(shown({"m", "-p", "x", "--no-such", "-h", "-n"}) ==
          std::pair(Show::help, Command::answer));
    CHECK(shown({"bench", "--help"}) == std::pair(Show::help, Command::bench));
    CHECK(shown({"bench", "--help-advanced"}) == std::pair(Show::help_advanced, Command::bench));
    CHECK(shown({"help"}) == std::pair(Show::help, Command::answer));
    CHECK(shown({"help", "plan"}) == std::pair(Show::help, Command::plan));
    CHECK(shown({"help", "--help"}) == std::pair(Show::help, Command::answer));
    CHECK(shown({"--version"}).first == Show::version);
    CHECK(shown({"--list-devices"}).first == Show::devices);
    variables.clear();
    CHECK(s.good({"m", "-p", "--help"}).show == Show::nothing);
    CHECK(s.good({"./help"}).engine.locations.front() == "./help");
}

TEST_CASE("OPTIONS.md has every option that is not hidden, with all its names") {
    const std::string text = options_markdown();
    for (const OptionSpec& spec : option_table()) {
        for (const std::string& flag : spec.flags()) {
            CAPTURE(flag);
            CHECK(names(text, flag) == (!spec.is(hidden) || flag == "--help-markdown"));
        }
    }
}

TEST_CASE("commands: found by name, in the order of their values") {
    for (const CommandSpec& spec : command_table()) {
        CHECK(command_spec(spec.command).name == spec.name);
        CHECK((spec.command == Command::answer) == (find_command(spec.name) == nullptr));
    }
    CHECK(find_command("nosuch") == nullptr);
    CHECK(command_title(Command::answer) == "sluice");
    CHECK(command_title(Command::plan) == "sluice plan");
}
