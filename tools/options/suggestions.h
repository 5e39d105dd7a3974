// Suggests the intended name for an unknown flag, command, key or variable.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "io/error.h"
#include "tools/options/options.h"

namespace sluice {

// "sluice --help" or "sluice bench --help".
std::string help_command(Command command);

// The usage error for `flag`, as typed ("--temprature", "-ngl"), which `command` does not have: the
// nearest flag, the new name of a renamed one, or the commands that have it.
Error unknown_flag(std::string_view flag, Command command);

// "; did you mean inspect?", or nothing where no command has a similar name.
std::string command_suggestion(std::string_view word);

// What was meant by an unknown key of a configuration file: "did you mean \"temp\"?", that it is
// only a flag, or where the names are listed.
std::string key_suggestion(std::string_view key);

// One line about the variables of `environment` ("NAME=value", ends with a null) whose names begin
// with SLUICE_ in any case, which are not empty and have no effect, each with the nearest setting.
// Empty if there are none. Variables of the build and of the tests are left out.
std::string unused_variables(const char* const* environment);

}  // namespace sluice
