// `sluice plan MODEL`: estimates memory use, speed and the bottleneck without running: bytes per
// class of tensors, what is placed where on this machine, and how fast decode and prompts can be.
#pragma once

#include "io/error.h"
#include "tools/options/options.h"
#include "tools/plan/plan_report.h"

namespace sluice {

enum class PlanParts { placement, all };  // placement: nothing is measured, no rates, no forecasts

// Measures for 2 to 4 seconds, in a few hundred MB of memory or less if the RAM budget is smaller.
// --vram on a machine without a GPU, or with one that is too small, plans for a GPU of that size at
// assumed rates.
Result<PlanReport> make_plan(const Options& options, PlanParts parts = PlanParts::all);

int run_plan(const Options& options);

}  // namespace sluice
