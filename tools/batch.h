// The command `sluice batch`: many requests from a file or from standard input.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Returns the exit code: 0 if every line is answered, 1 if a line was refused or failed.
int run_batch(const Options& options, const Terminal& terminal);

}  // namespace sluice
