// From options to a loaded Runtime: opens and checks the model, splits the memory, reads the
// weights, in that order.
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
    bool direct = false;  // all files are read with O_DIRECT, past the page cache
    LoadFacts facts;
};

// The first part of load_model(): finds the checkpoint, reads its config and checks every tensor
// against the model's description. Takes no memory to speak of. `specs` point into the weights of
// `loaded`, which has to outlive them.
struct Described {
    std::vector<TensorSpec> specs;
    std::vector<TensorClass> classes;
};
Result<Described> describe_model(const EngineOptions& options, Loaded& loaded);

// N of "cuda:N"; 0 for "auto", "cpu" and "cuda"; usage for anything else.
Result<int> cuda_index(const std::string& device);

// For a run on the CPU: usage if an option is given that needs a GPU.
Result<void> refuse_gpu_options(const EngineOptions& options);

// Fills `loaded`, which must not move afterwards: its parts point at each other.
Result<void> load_model(const EngineOptions& options, const LoadControl& control, Loaded& loaded);

}  // namespace sluice
