// What `sluice plan` reports, as text and as JSON.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/load/memory_plan.h"
#include "tools/plan/plan_forecast.h"
#include "tools/plan/plan_model.h"
#include "tools/plan/plan_rates.h"

namespace sluice {

struct PlanReport {
    std::unique_ptr<PlanModel> model;
    std::string device;  // as the engine names it; "an assumed GPU of 7.3 GiB"
    Plan plan;           // with the settings of the run
    MachineRates rates;
    std::vector<Forecast> decode, prompts;
    std::vector<std::string> notes;
};

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);

}  // namespace sluice
