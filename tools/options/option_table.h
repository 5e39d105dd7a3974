// The table of options: names, help, the commands that take them, and how text becomes a value.
//
// A new option is a row in option_table.cpp, and a member of Options if it has a value of its own.
// Help, OPTIONS.md, variables, keys of the configuration file and suggestions follow from the row.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "tools/options/options.h"

namespace sluice {

// The values from one source.
struct Setting {
    std::string source;  // "--temp", "SLUICE_TEMP", "config.toml line 3: temp"
    std::vector<std::string> values;
};

using Commands = unsigned;  // a bit per Command
constexpr Commands bit(Command command) {
    return 1u << static_cast<unsigned>(command);
}
// The answer command with --verify.
constexpr Commands comparing = 1u << 31;

// What is special about an option, or'ed. Without traits it takes one value, may also be a variable
// or a key, and the last one given counts.
using Traits = unsigned;
enum Trait : Traits {
    ordinary = 0,
    once = 1,           // about this run: only on the command line, and one value at most
    repeated = 2,       // one value each time it is given; all count
    several = 4,        // one or more values behind one flag
    advanced = 8,       // shown by --help-advanced
    needs_gpu = 16,     // refused on the CPU
    informative = 32,   // prints a text instead of running a command
    settable = 64,      // the chat's /set changes it
    hidden = 128,       // in no help
    for_servers = 256,  // advanced, except for `sluice serve`
};

struct OptionSpec {
    const char* names;       // "-c,--ctx-size"; the long names are also keys and variables
    const char* value_name;  // "": a switch; as a variable or key it is on or off
    Traits traits;
    Commands commands;
    const char* group;
    const char* help;
    Result<void> (*set)(Options& options, const Setting& setting);

    bool is(Trait trait) const { return (traits & trait) != 0; }
    // Shown by the --help-advanced of this command.
    bool apart(Command command) const {
        return is(advanced) || (is(for_servers) && command != Command::serve);
    }
    bool is_switch() const { return value_name[0] == '\0'; }
    bool lasting() const { return !is(once); }    // may come from a variable or a file
    std::vector<std::string> flags() const;       // every name, as it is typed
    std::vector<std::string> long_names() const;  // without dashes; the first one is the name
    std::string name() const { return long_names().front(); }
};

std::span<const OptionSpec> option_table();

// The option with this long name; null: none.
const OptionSpec* find_option(std::string_view long_name);

// "ctx-size" -> "SLUICE_CTX_SIZE".
std::string variable_name(std::string_view long_name);

}  // namespace sluice
