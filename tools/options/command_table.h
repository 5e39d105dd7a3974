// The table of commands: their names and what their help says.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/options/options.h"

namespace sluice {

struct CommandSpec {
    Command command;
    const char* name;       // as typed; the answer command has none, it is called "sluice"
    const char* words;      // what stands after the name: "MODEL", "ROUTES...", nothing
    const char* summary;    // one line for the list of commands
    const char* text;       // what `sluice help NAME` begins with, lines of at most 100 columns
    const char* also = "";  // another name
};

std::span<const CommandSpec> command_table();

const CommandSpec& command_spec(Command command);

// The command with this name; null: none.
const CommandSpec* find_command(std::string_view name);

// "sluice" or "sluice bench".
std::string command_title(Command command);

}  // namespace sluice
