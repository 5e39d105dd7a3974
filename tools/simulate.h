// `sluice simulate ROUTES...`: replays recorded routes through other cache policies, cache sizes
// and predictors.
#pragma once

#include "tools/options/options.h"

namespace sluice {

// Prints a table (or JSON) per file: a row for each number of slots, policy and predictor, with the
// hit rate of decode demands and, with --prefetch, what the predictors gain. Slots default to 1, 2,
// 4 ... working sets of a token, up to all experts. Returns the exit code.
int run_simulate(const Options& options);

}  // namespace sluice
