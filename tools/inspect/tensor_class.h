// What a tensor is for, judged by its name alone: for listings. (What the model needs and accepts
// is the model description's.)
#pragma once

#include <string_view>

namespace sluice {

enum class TensorClass {
    routed_experts,
    engram_tables,
    engram_projections,
    attention,
    compressor_indexer,
    shared_experts,
    router,
    hyper_connections,
    norms,
    embedding,
    head,
    mtp,
    vision,
    unaccounted,
    count
};

const char* tensor_class_name(TensorClass tensor_class);  // "routed experts"

// Other exports' spellings (model. in front, self_attn, mlp, lm_head, embed_tokens) count as well.
TensorClass tensor_class(std::string_view name);

}  // namespace sluice
