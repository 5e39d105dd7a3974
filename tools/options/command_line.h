// The arguments of a command, sorted by the options that they belong to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/error.h"
#include "tools/options/option_table.h"

namespace sluice {

// What was typed, by row of the option table. The source of each is "--" and its name.
using TypedFlags = std::map<const OptionSpec*, Setting>;

struct CommandLine {
    TypedFlags flags;
    std::vector<std::string> words;  // what belongs to no flag: a model, files of routes
};

// Forms: --name VALUE, --name=VALUE, -nVALUE, a switch as -v or --verbose=off, and words after "--"
// that begin with a dash. A value may look like a flag. Errors are usage and name the flag, the
// nearest one if it is unknown; --help and --help-advanced beat them.
Result<CommandLine> read_command_line(Command command, const std::vector<std::string>& arguments);

// The index of the first argument that is neither a flag nor its value; the number of arguments
// where there is none.
size_t first_word(const std::vector<std::string>& arguments);

}  // namespace sluice
