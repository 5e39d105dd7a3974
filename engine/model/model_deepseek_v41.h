// DeepSeek-V4.1 for text: its config, its tensors.
#pragma once

#include "engine/model/model.h"

namespace sluice::deepseek_v41 {

Result<ModelConfig> parse(const Json& root);
std::vector<TensorSpec> describe(const ModelConfig& config, Weights& weights);
std::string expert_name(ExpertKey key, ExpertPart part);

}  // namespace sluice::deepseek_v41
