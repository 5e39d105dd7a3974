// `sluice bench MODEL`: how fast this machine runs the model, beside how fast it could.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Measures all parts that --only names, else prefill and decode speed with the memory they took,
// decode with the cache off as a share of what the drive allows, expert kernels, and the drive.
// Prints a table, or JSON. Returns the exit code.
int run_bench(const Options& options, const Terminal& terminal);

}  // namespace sluice
