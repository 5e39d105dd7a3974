// The list of options: names, help, where each may be used, and how its text becomes a value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "tools/options/options.h"

namespace sluice {

// Values from one source.
struct Setting {
    std::string source;  // "--temp", "SLUICE_TEMP", "config.toml line 3"
    std::vector<std::string> values;
};

using Commands = unsigned;  // a bit per Command
constexpr Commands bit(Command command) {
    return 1u << static_cast<unsigned>(command);
}

enum class Takes {
    none,      // a switch; in variables and files: on or off
    one,       // given again, the last one counts
    repeated,  // one value a time, all count
    several,   // one or more values a time
};

// The answer command with --verify.
constexpr Commands comparing = 1u << 31;

struct OptionSpec {
    const char* names;  // "-c,--ctx-size"; the long names are also keys and variables
    const char* value_name;
    Takes takes;
    Commands commands;
    bool lasting;  // may come from a variable or a file
    const char* group;
    const char* help;
    Result<void> (*set)(Options& options, const Setting& setting);

    std::vector<std::string> long_names() const;  // without dashes
    std::vector<std::string> flags() const;       // every name, as it is typed
};

std::span<const OptionSpec> option_table();

// "ctx-size" -> "SLUICE_CTX_SIZE".
std::string variable_name(std::string_view long_name);
// The option that has `long_name` and may come from a variable or a file; null: none.
const OptionSpec* find_lasting(std::string_view long_name);

}  // namespace sluice
