// Tensors that every DeepSeek model has, by their names in the checkpoint. Each function walks a
// part of one layer, whose prefix the walk has.
#pragma once

#include <string>

#include "engine/model/tensor_walk.h"

namespace sluice::deepseek {

// hc_NAME_fn, _base and _scale.
void walk_hyper(TensorWalk& walk, const ModelConfig& config, const std::string& name,
                HyperWeights& weights);
// Hyper-connections, norms and attention, without compressor and indexer.
void walk_layer(TensorWalk& walk, const ModelConfig& config, LayerWeights& weights);
// attn.indexer: queries and head weights.
void walk_index_queries(TensorWalk& walk, const ModelConfig& config, IndexerWeights& weights);
// The router's matrix and the shared expert.
void walk_experts(TensorWalk& walk, const ModelConfig& config, LayerWeights& weights);
// The last norm, head and embedding.
void walk_ends(TensorWalk& walk, const ModelConfig& config, Weights& weights);

std::string expert_name(ExpertKey key, ExpertPart part);

}  // namespace sluice::deepseek
