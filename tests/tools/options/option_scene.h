// Options as a test gives them: arguments, variables and one configuration file.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tools/options/options.h"

namespace sluice {

inline std::map<std::string, std::string> variables;

inline const char* fake_environment(const char* name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
}

// No file of this machine takes part: --config /dev/null is no regular file, so an empty one.
struct Scene {
    TempFolder folder;
    std::string config = folder / "config.toml";
    Scene() {
        variables.clear();
        write_file(config, "");
    }
    Result<Invocation> parse(std::vector<std::string> arguments) {
        bool command = false;
        for (const char* name : {"record", "inspect", "simulate", "bench", "plan", "selftest"})
            command = command || (!arguments.empty() && arguments.front() == name);
        arguments.insert(arguments.begin() + command, {"--config", config});
        return parse_options(arguments, fake_environment);
    }
    Options good(std::vector<std::string> arguments) {
        auto out = parse(std::move(arguments));
        INFO((out ? std::string() : out.error().message));
        REQUIRE(out);
        return out->options;
    }
    std::string bad(std::vector<std::string> arguments) {
        auto out = parse(std::move(arguments));
        REQUIRE_FALSE(out);
        CHECK(out.error().code == Code::usage);
        CHECK(out.error().message.find('\n') == std::string::npos);
        return out.error().message;
    }
};

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace sluice
