// `sluice plan MODEL`: before a run, or without one: bytes by class, what goes where on this
// machine, how fast decode and prompts can be, and what binds.
#pragma once

#include "io/error.h"
#include "tools/options/options.h"
#include "tools/plan/plan_report.h"

namespace sluice {

// Measures for 2 to 4 seconds, in a few hundred MB, less where the RAM budget is less. Memory that
// is asked for with --vram on a machine without a card, or beyond what the card has, is planned for
// all the same, at assumed rates.
enum class PlanParts { placement, all };  // placement: nothing is measured, no rates, no forecasts
Result<PlanReport> make_plan(const Options& options, PlanParts parts = PlanParts::all);

int run_plan(const Options& options);

}  // namespace sluice
