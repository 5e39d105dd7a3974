// What takes how much of RAM and VRAM, settled before anything is taken: from a loaded model's
// parts by the engine, from a config alone by `sluice plan`. One function, so that both say the
// same.
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

// The device as far as memory goes.
struct DeviceMemory {
    bool host = true;                                // it computes in the host's memory
    uint64_t limit = UINT64_MAX;                     // Backend::memory_limit()
    std::function<uint64_t(const Shapes&)> scratch;  // Backend::reserve_bytes()
};
DeviceMemory device_memory(const Backend& backend);

struct PlanInput {
    const ModelConfig& config;
    const EngineOptions& options;
    const std::vector<TensorSpec>& specs;
    std::span<const RowTable> tables;
    uint64_t slot_bytes;         // of an expert in RAM: ExpertMap::slot_bytes()
    uint64_t device_slot_bytes;  // and in VRAM: DeviceExperts::slot_bytes()
    const DeviceMemory& device;
};

struct Plan {
    Settings settings;  // but for the device, which the caller knows
    WorkspaceShape shape;
    std::vector<TensorSpec> specs;  // as given, but for the head where the device has no room
    uint64_t dense, embedding, state, workspace, row_buffers;
    uint64_t scratch;  // of the backend's kernels
    // Prompt tokens of a chunk group, whose chunks go through each layer before the next one, so
    // that experts are read once for the group; 0: chunks go one by one.
    int32_t chunk_group_tokens = 0;
    uint64_t chunk_store = 0;  // what waits between the layers, bytes
    uint32_t row_capacity;
    uint32_t transit_slots, vram_transit_slots;
    bool head_on_host;
    std::vector<BudgetLine> placement;  // VRAM, then RAM
    std::vector<std::string> notes;
    std::string warning;  // what was settled for and costs speed; may be empty
};

// Resolves context, chunk and cache slots against the RAM (and VRAM) there is. usage: what options
// cannot mean; no_memory: what does not fit, and how much of each memory would do, all in all.
Result<Plan> plan_memory(const PlanInput& in);
Shapes largest_shapes(const ModelConfig& config, const WorkspaceShape& shape);

}  // namespace sluice
