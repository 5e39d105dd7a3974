// `sluice MODEL --verify TRACE...`: compares this engine with recorded runs.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Prints one line per trace on standard output, one more for each token that differs, and a
// summary. Traces of other models in a folder are skipped and listed on stderr; a trace given by
// file name is compared with any model. Nothing to compare is an error. Exit code 1 if a trace
// differs.
int run_verify(const Options& options, const Terminal& terminal);

}  // namespace sluice
