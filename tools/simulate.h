// `sluice simulate ROUTES...`: what would other policies, sizes and predictors have done?
#pragma once

#include "tools/options/options.h"

namespace sluice {

// A table a file: a row for each number of slots, a column for each policy with its hit rate of
// decode demands; with --prefetch, what the predictors gain. Slots default to working sets of 1, 2,
// 4 ... up to all experts.
int run_simulate(const Options& options);

}  // namespace sluice
