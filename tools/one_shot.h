// `sluice MODEL -p TEXT`: one answer on standard output.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Writes text as it is generated (--no-stream: when complete) and a line feed if the answer does
// not end with one; or one JSON object. Errors before the first token leave standard output empty;
// an answer that fails later is flushed, and the JSON object says so. Returns the exit code.
int run_once(const Options& options, const Terminal& terminal);

}  // namespace sluice
