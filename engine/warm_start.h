// Which experts a run kept, remembered for the next run of the same model: ids only, in the cache
// folder (load/cache_file.h). It changes speed, never results.
#pragma once

#include <vector>

#include "engine/engine_impl.h"
#include "io/checkpoint/expert_map.h"

namespace sluice {

// Those of the last run that remembered, most valuable first; empty if there are none, or if the
// file is damaged or of another model.
std::vector<ExpertKey> recall_experts(const Runtime& runtime);

// What is in VRAM and in RAM now, most recently used first. False if it cannot be kept.
bool remember_experts(const Runtime& runtime);

}  // namespace sluice
