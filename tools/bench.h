// `sluice bench MODEL`: what this machine does with this model, beside what it could do.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Parts (--only): prefill and decode tokens/s with the memory they took, decode with the cache off
// as a share of what the drive allows, expert kernels, and the drive. A table, or JSON.
int run_bench(const Options& options, const Terminal& terminal);

}  // namespace sluice
