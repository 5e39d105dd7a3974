// `sluice MODEL --verify TRACE...`: does this engine repeat recorded runs?
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// One line a trace on standard output, one more for each token that differs, a summary last.
// Traces of other models found in a folder are skipped and named; a trace of another model that was
// named itself, and nothing to compare at all, are errors. Exit code 1 when one differs.
int run_verify(const Options& options, const Terminal& terminal);

}  // namespace sluice
