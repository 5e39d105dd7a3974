// DeepSeek-V4.1, text only: its config.json and its tensors (deepseek-v41.md sections 1 and 2).
#pragma once

#include "engine/model/model.h"

namespace sluice::deepseek_v41 {

Result<ModelConfig> parse(const Json& root);
std::vector<TensorSpec> describe(const ModelConfig& config, Weights& weights);
std::string expert_name(ExpertKey key, ExpertPart part);

}  // namespace sluice::deepseek_v41
