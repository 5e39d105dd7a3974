#include "tools/inspect/tensor_class.h"

#include <array>
#include <cstddef>

namespace sluice {
namespace {

struct Rule {
    std::string_view start;
    TensorClass tensor_class;
};

// First match wins. Of whole names:
constexpr std::array global_rules{
    Rule{"mtp.", TensorClass::mtp},         Rule{"vision.", TensorClass::vision},
    Rule{"aligner.", TensorClass::vision},  Rule{"image_", TensorClass::vision},
    Rule{"embed.", TensorClass::embedding}, Rule{"embed_tokens.", TensorClass::embedding},
    Rule{"head.", TensorClass::head},       Rule{"lm_head.", TensorClass::head},
    Rule{"norm.", TensorClass::norms},
};
// Of names behind "layers.N.":
constexpr std::array layer_rules{
    Rule{"ffn.experts.", TensorClass::routed_experts},
    Rule{"mlp.experts.", TensorClass::routed_experts},
    Rule{"ffn.shared_experts.", TensorClass::shared_experts},
    Rule{"mlp.shared_experts.", TensorClass::shared_experts},
    Rule{"ffn.gate.", TensorClass::router},
    Rule{"mlp.gate.", TensorClass::router},
    Rule{"engram.embed.", TensorClass::engram_tables},
    Rule{"engram.", TensorClass::engram_projections},
    Rule{"hc_", TensorClass::hyper_connections},
    Rule{"attn.compressor.", TensorClass::compressor_indexer},
    Rule{"attn.indexer.", TensorClass::compressor_indexer},
    Rule{"self_attn.compressor.", TensorClass::compressor_indexer},
    Rule{"self_attn.indexer.", TensorClass::compressor_indexer},
    Rule{"attn.", TensorClass::attention},
    Rule{"self_attn.", TensorClass::attention},
    Rule{"attn_norm.", TensorClass::norms},
    Rule{"ffn_norm.", TensorClass::norms},
    Rule{"input_layernorm.", TensorClass::norms},
    Rule{"post_attention_layernorm.", TensorClass::norms},
};

constexpr std::array<const char*, static_cast<size_t>(TensorClass::count)> class_names{
    "routed experts",
    "Engram tables",
    "Engram projections",
    "attention",
    "compressor, indexer",
    "shared experts",
    "router",
    "hyper-connections",
    "norms",
    "embedding",
    "head",
    "mtp (draft head)",
    "vision",
    "unaccounted"};

template <size_t N>
TensorClass match(const std::array<Rule, N>& rules, std::string_view name) {
    for (const Rule& rule : rules) {
        if (name.starts_with(rule.start)) return rule.tensor_class;
    }
    return TensorClass::unaccounted;
}

}  // namespace

const char* tensor_class_name(TensorClass tensor_class) {
    return class_names[static_cast<size_t>(tensor_class)];
}

TensorClass tensor_class(std::string_view name) {
    constexpr std::string_view prefix = "model.", layers = "layers.";
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    if (!name.starts_with(layers)) return match(global_rules, name);
    name.remove_prefix(layers.size());
    const size_t digits = name.find_first_not_of("0123456789");
    if (digits == 0 || digits == name.npos || name[digits] != '.') return TensorClass::unaccounted;
    return match(layer_rules, name.substr(digits + 1));
}

}  // namespace sluice
