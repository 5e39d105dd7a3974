// `sluice record MODEL -o FILE`: records a greedy run that --verify compares with later.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// The prompt is -p, -f, standard input, or --messages FILE (a JSON list of {role, content,
// reasoning}). Writes FILE whole or not at all; a line on stderr says how many tokens it holds.
int run_record(const Options& options, const Terminal& terminal);

}  // namespace sluice
