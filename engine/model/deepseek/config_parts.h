// What the config.json of every DeepSeek model has in common: fields of the same name and meaning,
// and the relations between them that the kernels' formats need. Each function reads its fields from
// `t`, which keeps the first problem.
#pragma once

#include "engine/model/config.h"
#include "engine/model/config_fields.h"

namespace sluice::deepseek {

void read_sizes(ConfigFields& t, ModelConfig& config);
void read_experts(ConfigFields& t, ModelConfig& config);
void read_indexer(ConfigFields& t, ModelConfig& config);
void read_hyper_connections(ConfigFields& t, ModelConfig& config);
// `kind`: the name of the field that says "yarn".
Result<void> read_rope_scaling(ConfigFields r, const char* kind, RopeScaling& yarn);
// The fields that only the draft head uses.
void read_unused_draft(ConfigFields& t);
void read_tokens(ConfigFields& top, ModelConfig& config);

// Requires arithmetic to be set.
void check_sizes(ConfigFields& t, const ModelConfig& config);

}  // namespace sluice::deepseek
