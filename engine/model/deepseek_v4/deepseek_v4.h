// DeepSeek-V4 (deepseek-v4.md): the functions of its ModelDescription, which is in model.cpp.
#pragma once

#include "engine/model/model.h"
#include "engine/model/model_shape.h"

namespace sluice::deepseek_v4 {

// Section 1.
Result<ModelConfig> parse(const Json& root);
// Section 2.
std::vector<TensorSpec> describe(const ModelConfig& config, Weights& weights);
// Which draft head the files hold, and of how many stages, against compress_ratios (section 5).
Result<void> check_checkpoint(const Checkpoint& checkpoint, const ModelConfig& config);
// "an MTP block", "3 DSpark stages"; empty: none, or neither of them.
std::string draft_head_kind(const Checkpoint& checkpoint);
// The tables of experts by token id: in range, and no expert twice for a token.
Result<void> check_weights(const Checkpoint& checkpoint, const ModelConfig& config,
                           const Weights& weights);
// Section 3.
Result<void> run_layer(Pass& pass, int32_t layer);

ModelShape flash_shape();
ModelShape pro_shape();
std::string config_text(const ModelShape& shape, const Vocabulary& vocabulary);

}  // namespace sluice::deepseek_v4
