// From options to a loaded Runtime: what is opened, checked, promised and read, in that order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/runtime.h"
#include "engine/tokenizer.h"

namespace sluice {

struct Loaded {
    Runtime runtime;
    std::optional<Tokenizer> tokenizer;
    std::vector<BudgetLine> placement;
    std::vector<std::string> notes;
    std::string io_name;
};

// Fills `loaded`, whose address must stay (parts point at each other).
Result<void> load_model(const EngineOptions& options, const LoadControl& control, Loaded& loaded);

// load_budget.cpp: resolves context, chunk and cache slots against the RAM (and VRAM) there is, and
// keeps the table.
struct Plan {
    WorkspaceShape shape;
    uint64_t dense, embedding, state, workspace, row_buffers;
    uint64_t scratch;  // of the backend's kernels
    uint32_t row_capacity;
    uint32_t cache_slots, ring_slots;
    uint32_t vram_cache_slots, vram_ring_slots;
    bool head_on_host;
};
// Moves the head to host memory when the device has no room for it.
Result<Plan> plan_memory(Loaded& loaded, std::vector<TensorSpec>& specs);
Shapes largest_shapes(const ModelConfig& config, const WorkspaceShape& shape);

}  // namespace sluice
