// The bounds keep every later product within 64 bits and the size of any one matrix within 32.
#include "engine/model/deepseek/config_parts.h"

#include <algorithm>

#include "io/text.h"

namespace sluice::deepseek {

void read_sizes(ConfigFields& t, ModelConfig& c) {
    c.vocab = t.integer("vocab_size", 1, 1 << 24);
    c.hidden = t.integer("hidden_size", 32, 65536);
    c.moe_hidden = t.integer("moe_intermediate_size", 32, 65536);
    c.layers = t.integer("num_hidden_layers", 1, 1024);
    c.heads = t.integer("num_attention_heads", 1, 1024);
    t.expect("num_key_value_heads", int64_t{1});
    c.head_dim = t.integer("head_dim", 32, 4096);
    c.rope_dim = t.integer("qk_rope_head_dim", 2, 4096);
    c.q_rank = t.integer("q_lora_rank", 32, 65536);
    c.o_rank = t.integer("o_lora_rank", 1, 65536);
    c.o_groups = t.integer("o_groups", 1, 1024);
    t.expect("hidden_act", "silu");
    c.swiglu_limit = static_cast<float>(t.number("swiglu_limit", 1e-6, 1e6));
    c.norm_eps = static_cast<float>(t.number("rms_norm_eps", 1e-30, 1));
    t.expect("tie_word_embeddings", false, true);
    t.expect("attention_bias", false, true);
    t.without_effect({"attention_dropout", "initializer_range", "use_cache", "dtype", "torch_dtype",
                      "architectures", "transformers_version"});
    c.positions_max = t.integer("max_position_embeddings", 1, 1 << 27);
    c.rope_base = t.number("rope_theta", 1.5, 1e12);
    c.compressed_rope_base = t.number("compress_rope_theta", 1.5, 1e12);
    c.window = t.integer("sliding_window", 1, 65536);
}

void read_experts(ConfigFields& t, ModelConfig& c) {
    c.experts = t.integer("n_routed_experts", 1, 4096);
    t.expect("n_shared_experts", int64_t{1});
    c.top_k = t.integer("num_experts_per_tok", 1, std::min(c.experts, 64));
    t.expect("scoring_func", "sqrtsoftplus");
    t.expect("topk_method", "noaux_tc");
    t.expect("norm_topk_prob", true);
    c.route_scale = static_cast<float>(t.number("routed_scaling_factor", 1e-6, 1e6));
}

void read_indexer(ConfigFields& t, ModelConfig& c) {
    c.index_heads = t.integer("index_n_heads", 1, 1024);
    c.index_dim = t.integer("index_head_dim", 32, 4096);
    c.index_topk = t.integer("index_topk", 1, 65536);
}

void read_hyper_connections(ConfigFields& t, ModelConfig& c) {
    c.hc = t.integer("hc_mult", 1, 16);
    c.hc_iterations = t.integer("hc_sinkhorn_iters", 1, 1000);
    c.hc_eps = static_cast<float>(t.number("hc_eps", 0, 1));
}

Result<void> read_rope_scaling(ConfigFields r, const char* kind, RopeScaling& yarn) {
    r.expect(kind, "yarn");
    yarn.factor = r.number("factor", 1, 1e6);
    yarn.beta_fast = r.number("beta_fast", 1e-3, 1e6);
    yarn.beta_slow = r.number("beta_slow", 1e-3, 1e6);
    yarn.original_positions = r.integer("original_max_position_embeddings", 1, 1 << 30);
    return r.finish();
}

void read_unused_draft(ConfigFields& t) {
    t.without_effect({"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids",
                      "dspark_markov_rank", "dspark_n_routed_experts",
                      "dspark_num_experts_per_tok"});
}

void read_tokens(ConfigFields& top, ModelConfig& c) {
    c.bos = top.integer("bos_token_id", 0, c.vocab - 1);
    c.pad = top.integer_or("pad_token_id", 0, c.vocab - 1, -1);
    c.image_token = top.integer_or("image_token_id", 0, c.vocab - 1, -1);
    c.end_tokens = top.one_or_more("eos_token_id", 0, c.vocab - 1);
    if (c.end_tokens.empty()) top.problem(Code::corrupt, "eos_token_id", "is an empty list");
    c.eos = c.end_tokens.empty() ? 0 : c.end_tokens.front();
}

void check_sizes(ConfigFields& t, const ModelConfig& c) {
    const auto multiple = [&](const char* name, int64_t value, int64_t of) {
        if (value % of == 0) return;
        t.problem(Code::unsupported, name,
                  cat(value, " is not a multiple of ", of,
                      of == 32 ? ", the block of the FP8 and FP4 formats"
                               : ", the group in which activations are quantised"));
    };
    const int64_t group = c.arithmetic.activation_group;
    multiple("hidden_size", c.hidden, group);
    multiple("moe_intermediate_size", c.moe_hidden, group);
    multiple("head_dim", c.head_dim, 32);
    multiple("q_lora_rank", c.q_rank, group);
    multiple("index_head_dim", c.index_dim, 32);
    multiple("o_lora_rank", int64_t{c.o_groups} * c.o_rank, group);
    if (c.heads % c.o_groups != 0) {
        t.problem(Code::unsupported, "o_groups",
                  cat(c.heads, " heads cannot be divided into ", c.o_groups, " groups"));
    }
    if (c.rope_dim % 2 != 0 || c.rope_dim > c.head_dim || c.rope_dim > c.index_dim) {
        t.problem(Code::unsupported, "qk_rope_head_dim",
                  cat(c.rope_dim, " must be even and at most head_dim ", c.head_dim,
                      " and index_head_dim ", c.index_dim));
    }
}

}  // namespace sluice::deepseek
