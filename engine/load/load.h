// From options to a loaded Runtime: what is opened, checked, promised and read, in that order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/forward/runtime.h"
#include "engine/load/memory_plan.h"
#include "engine/model/model.h"
#include "engine/text/tokenizer.h"

namespace sluice {

struct Loaded {
    Runtime runtime;
    std::optional<Tokenizer> tokenizer;
    std::vector<BudgetLine> placement;
    std::vector<std::string> notes;
    std::string io_name;
    bool direct = false;  // all files past the page cache
    LoadFacts facts;
};

// The first part of load_model(): finds the checkpoint, reads its config and holds every tensor
// against the model's description; nothing is taken yet. `specs` and the weights they point into
// belong to `loaded`.
struct Described {
    std::vector<TensorSpec> specs;
    std::vector<TensorClass> classes;
};
Result<Described> describe_model(const EngineOptions& options, Loaded& loaded);

// N of "cuda:N"; 0 for "auto", "cpu" and "cuda"; usage for anything else.
Result<int> card_number(const std::string& device);

// Of a run on the CPU: usage where an option is given that speaks of a card.
Result<void> refuse_card_options(const EngineOptions& options);

// Fills `loaded`, whose address must stay (parts point at each other).
Result<void> load_model(const EngineOptions& options, const LoadControl& control, Loaded& loaded);

}  // namespace sluice
