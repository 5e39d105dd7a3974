// What config.json says, checked. Field meanings: README "Model"; unknown values are refused by
// name.
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
    std::vector<int32_t> ratios;         // per layer: 0 window only, 1, 2
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
    int32_t draft_stages;  // mtp.*: known, unused
    bool vision;           // known, unused
    int32_t bos, eos, pad, image_token;
    std::vector<int32_t> end_tokens;  // union of config, generation config and tokenizer

    int32_t kv_source_of(int32_t layer) const;  // nearest owner <= layer; -1 for ratio 0
    int32_t index_source_of(int32_t layer) const;
    int32_t engram_columns() const { return (engram_ngram - 1) * engram_heads; }
};

// Every field present and in range, every relation checked (lists sorted and in range, ratio lists'
// length, sums, multiples of 32, rope_dim <= head_dim, the unsafe candidate configuration of
// section 3.7, scoring, quantisation ...). A field this program does not know is refused by name
// unless it is on the list of those without effect. Errors name the field; the file is the
// caller's to name.
Result<ModelConfig> parse_config(std::string_view config_json);

// Adds the end tokens of generation_config.json; they join the config's, they do not replace them.
Result<void> join_generation_config(std::string_view generation_config_json, ModelConfig& config);

}  // namespace sluice
