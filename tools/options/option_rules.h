// Checks which options can be combined.
#pragma once

#include <string>

#include "io/error.h"
#include "tools/options/command_line.h"
#include "tools/options/options.h"

namespace sluice {

// Whether a typed flag contradicts `spec`, so that a variable's or a file's value of it is dropped.
bool overruled(const OptionSpec& spec, const TypedFlags& flags);

// A flag that was typed and has a use only for a model that this process loads: "--ram"; empty:
// none.
std::string loading_flag(const TypedFlags& flags);

// usage: flags that were typed together and of which one would have no effect. What was typed may
// replace what a variable or a file says, so values from there are not looked at.
Result<void> check_flags(const TypedFlags& flags, Command command);

// usage: values, wherever they are from, that contradict each other, and what is missing.
Result<void> check_options(const Options& options);

}  // namespace sluice
