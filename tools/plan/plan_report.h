// What `sluice plan` found out, as a text and as JSON.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/options.h"
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

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);

}  // namespace sluice
