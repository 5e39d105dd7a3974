// What the tensors of a model are for, and how many bytes each class holds.
//
// The one classifier: the load's notes, `sluice plan` and `sluice inspect` all list its classes,
// which are those of the model's description.
#pragma once

#include <vector>

#include "engine/model/model.h"

namespace sluice {

struct ClassifiedTensors {
    std::vector<TensorClass> classes;    // by home, then in the description's order; none is empty
    std::vector<const Tensor*> unknown;  // not in the description; in checkpoint order
};

// Looks at names alone: dtypes and shapes are check_tensors()'s business.
ClassifiedTensors classify_tensors(const Checkpoint& checkpoint, const ModelConfig& config,
                                   const ModelDescription& model,
                                   const std::vector<TensorSpec>& specs);

// The same without files: the sizes are the description's. Unused tensors are left out, because
// a checkpoint may lack them.
std::vector<TensorClass> described_classes(const ModelConfig& config,
                                           const std::vector<TensorSpec>& specs);

}  // namespace sluice
