// The contents of config.json, checked, in the terms of the parts that models are composed of. What
// only one family has is empty or off for the others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "kernels/ops.h"

namespace sluice {

struct RopeScaling {
    double factor, beta_fast, beta_slow;
    int64_t original_positions;
};

// Which compressed rows a layer attends to besides its window.
struct LayerRows {
    int32_t ratio = 0;     // tokens per row; 0: window only
    int32_t owner = -1;    // the layer whose rows they are; itself: it has a compressor
    int32_t chooser = -1;  // the layer whose indexer chooses among them; -1: all visible ones
    bool overlap = false;  // of an owner: a row pools its group and the one before
};

// What models round, group and order differently. The operations of kernels/ops.h take these as
// parameters; a model's parse() sets them.
struct Arithmetic {
    int32_t weight_tile = 32;       // FP8 weights: a scale for so many rows and columns
    int32_t activation_group = 32;  // quantised activations: values per scale
    Requant window_keys = Requant::fp8_32;
    Requant compressed_rows = Requant::fp4_16;
    bool keys_keep_rope = false;  // the rotated part of keys and rows is not quantised
    bool head_norm = false;       // queries are normed head by head
    // Hyper-connections: a sub-layer's input is summed with coefficients of its own mix, and the
    // head's with a mix of its own; else each mix serves the sub-layer behind it.
    bool own_mix = false;
    bool index_compressor = false;  // index keys are pooled by themselves, not made of latents
    float route_sum_floor = 1e-20f;
    bool route_normalises_one = false;
};

struct ModelConfig {
    std::string model_type;  // of ModelDescription
    Arithmetic arithmetic;
    int32_t vocab, hidden, moe_hidden, layers, heads, head_dim, rope_dim, q_rank, o_rank, o_groups;
    float swiglu_limit, norm_eps;
    int32_t positions_max;
    double rope_base, compressed_rope_base;
    RopeScaling yarn;
    int32_t experts, top_k, window;
    float route_scale;
    // Layers below this one choose experts by a table of token ids, so that they are known before
    // anything is computed.
    int32_t token_routed_layers;
    std::vector<LayerRows> rows;  // per layer
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

    bool owns_rows(int32_t layer) const { return rows[layer].owner == layer; }
    bool has_indexer(int32_t layer) const { return rows[layer].chooser == layer; }
    // Columns of the pooled values of an owner, per value of its rows.
    int32_t pool_width(int32_t layer) const { return rows[layer].overlap ? 2 : 1; }
    // Tokens of the pools that an owner keeps at most: of the open group, with overlap also of the
    // one before. 0 with a ratio of 1.
    int32_t open_slots(int32_t layer) const;
    int32_t widest_pool() const;  // the largest pool_width(); 0: no layer owns rows
    int32_t largest_ratio() const;
    int32_t compressed_rows(int32_t context) const;  // of the layer that has most
    int32_t attended_rows(int32_t context) const;    // compressed rows of one query, at most
    int32_t keys_kept() const { return arithmetic.keys_keep_rope ? rope_dim : 0; }
    int32_t engram_columns() const { return (engram_ngram - 1) * engram_heads; }
};

// Checks that every field is present and in range, and every relation between fields. An unknown
// field is refused by name unless the model lists it as without effect. Errors name the field; the
// caller adds the file.
Result<ModelConfig> parse_config(std::string_view config_json);

// Adds the end tokens of generation_config.json to those of the config.
Result<void> join_generation_config(std::string_view generation_config_json, ModelConfig& config);

}  // namespace sluice
