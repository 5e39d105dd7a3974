// The contents of config.json, checked. The fields are those of deepseek-v41.md section 1; an
// unknown field or value is refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

struct RopeScaling {
    double factor, beta_fast, beta_slow;
    int64_t original_positions;
};

struct ModelConfig {
    std::string model_type;  // "deepseek_v41"
    int32_t vocab, hidden, moe_hidden, layers, heads, head_dim, rope_dim, q_rank, o_rank, o_groups;
    float swiglu_limit, norm_eps;
    int32_t positions_max;
    double rope_base, compressed_rope_base;
    RopeScaling yarn;
    int32_t experts, top_k, window;
    float route_scale;
    std::vector<int32_t> ratios;         // per layer: tokens per compressed row; 0: window only
    std::vector<int32_t> kv_sources;     // layers that own a compressor
    std::vector<int32_t> index_sources;  // layers that run an indexer
    int32_t index_heads, index_dim, index_topk;
    int32_t candidate_source;  // layer, or -1
    int32_t candidate_blocks, candidate_block;
    int32_t hc, hc_iterations;
    float hc_eps;
    std::vector<int32_t> engram_layers;
    std::vector<int64_t> engram_rows;
    int32_t engram_ngram, engram_heads, engram_dim, engram_vocab, engram_compressed_vocab,
        engram_pad;
    int32_t draft_stages;  // mtp.*: known, not used
    bool vision;           // known, not used
    int32_t bos, eos, pad, image_token;
    std::vector<int32_t> end_tokens;  // of config, generation config and tokenizer together

    int32_t kv_source_of(int32_t layer) const;  // the nearest owner <= layer; -1 for ratio 0
    int32_t index_source_of(int32_t layer) const;
    int32_t engram_columns() const { return (engram_ngram - 1) * engram_heads; }
};

// Checks that every field is present and in range, and every relation between fields (sorted lists,
// the length of the ratio list, multiples of 32, rope_dim <= head_dim, the unsafe candidate
// configuration of deepseek-v41.md section 3.7, scoring, quantisation ...). An unknown field is
// refused by name unless it is listed as without effect. Errors name the field; the caller adds the
// file.
Result<ModelConfig> parse_config(std::string_view config_json);

// Adds the end tokens of generation_config.json to those of the config.
Result<void> join_generation_config(std::string_view generation_config_json, ModelConfig& config);

}  // namespace sluice
