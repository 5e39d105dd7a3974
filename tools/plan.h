// `sluice plan MODEL`: before a run, or without one: bytes by class, what goes where on this
// machine, how fast decode and prompts can be, and what binds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/options/options.h"
#include "tools/plan/plan_forecast.h"
#include "tools/plan/plan_model.h"
#include "tools/plan/plan_rates.h"

namespace sluice {

struct PlanReport {
    std::unique_ptr<PlanModel> model;
    EngineOptions options;  // resolved: context, chunk, budgets, slots
    std::string device;     // as the engine names it; "a card of 7.3 GiB, not there"
    uint64_t vram = 0;      // budget; 0 without a card
    Plan plan;
    MachineRates rates;
    std::vector<Forecast> decode, prompts;
    std::vector<std::string> notes;
};

// Measures for 2 to 4 seconds, in a few hundred MB, less where the RAM budget is less. Memory that
// is asked for with --vram on a machine without a card, or beyond what the card has, is planned for
// all the same, at assumed rates.
enum class PlanParts { placement, all };  // placement: nothing is measured, no rates, no forecasts
Result<PlanReport> make_plan(const Options& options, PlanParts parts = PlanParts::all);

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);

int run_plan(const Options& options);

}  // namespace sluice
