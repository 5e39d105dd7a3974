// How RAM and VRAM are split, decided before anything is allocated: by the engine from an opened
// checkpoint, by `sluice plan` from a config alone. One function, so that both give the same split.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/budget.h"
#include "engine/forward/workspace.h"
#include "engine/model/config.h"
#include "engine/model/model.h"
#include "engine/options.h"
#include "engine/settings.h"
#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

// What the split needs to know about a device.
struct DeviceMemory {
    bool host = true;                                // computes in RAM
    uint64_t limit = UINT64_MAX;                     // Backend::memory_limit()
    std::function<uint64_t(const Shapes&)> scratch;  // Backend::reserve_bytes()
};
DeviceMemory device_memory(const Backend& backend);

struct PlanInput {
    const ModelConfig& config;
    const EngineOptions& options;
    const std::vector<TensorSpec>& specs;
    std::span<const RowTable> tables;
    uint64_t slot_bytes;         // an expert in RAM: ExpertMap::slot_bytes()
    uint64_t device_slot_bytes;  // an expert in VRAM: DeviceExperts::slot_bytes()
    const DeviceMemory& device;
};

struct Plan {
    Settings settings;  // all but the device, which the caller fills in
    WorkspaceShape shape;
    std::vector<TensorSpec> specs;  // as given; the head moves to RAM if VRAM is too small
    uint64_t dense, embedding, state, workspace, row_buffers;
    uint64_t scratch;  // for the backend's kernels
    // Prompt tokens of a chunk group, whose chunks go through each layer before the next one, so
    // that experts are read once for the group; 0: chunks go one by one.
    int32_t chunk_group_tokens = 0;
    uint64_t chunk_store = 0;  // what waits between the layers, bytes
    uint64_t snapshot = 0;     // of a full context, bytes
    uint32_t row_capacity;     // Engram rows kept per table
    uint32_t transit_slots, vram_transit_slots;
    bool head_on_host;
    std::vector<BudgetLine> placement;  // VRAM, then RAM
    std::vector<std::string> notes;
    std::string warning;  // a compromise that costs speed; may be empty
};

// Chooses context, chunk and cache slots that fit the RAM and VRAM budgets. usage: options that
// contradict the model; no_memory: names what does not fit and the budget that would be enough for
// each memory.
Result<Plan> plan_memory(const PlanInput& in);
Shapes largest_shapes(const ModelConfig& config, const WorkspaceShape& shape);

}  // namespace sluice
