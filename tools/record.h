// `sluice record MODEL -o FILE`: a greedy run, kept so that --verify can repeat it.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// The prompt is -p, -f, standard input, or --messages FILE (a JSON list of {role, content,
// reasoning}). Writes FILE whole or not at all and says on stderr what it holds.
int run_record(const Options& options, const Terminal& terminal);

}  // namespace sluice
