// DeepSeek-V4.1, text only (deepseek-v41.md): the functions of its ModelDescription, which is in
// model.cpp.
#pragma once

#include "engine/model/model.h"
#include "engine/model/model_shape.h"

namespace sluice::deepseek_v41 {

// Section 1. The model's own relations: sorted lists, the length of the ratio list, the unsafe
// candidate configuration of section 3.7.
Result<ModelConfig> parse(const Json& root);
// Section 2.
std::vector<TensorSpec> describe(const ModelConfig& config, Weights& weights);
// Section 3.
Result<void> run_layer(Pass& pass, int32_t layer);

ModelShape flash_shape();
std::string config_text(const ModelShape& shape, const Vocabulary& vocabulary);

}  // namespace sluice::deepseek_v41
