// Source of model_deepseek_v41.h: parse(), which reads config.json (deepseek-v41.md section 1).
// The bounds keep every later product within 64 bits and the size of any one matrix within 32.
#include <algorithm>
#include <cmath>

#include "engine/model/config_fields.h"
#include "engine/model/model_deepseek_v41.h"
#include "io/text.h"

namespace sluice::deepseek_v41 {

namespace {

Result<void> read_quantization(ConfigFields q) {
    q.expect("quant_method", "fp8");
    q.expect("activation_scheme", "dynamic");
    q.expect("weight_block_size", std::vector<int64_t>{32, 32});
    q.expect("scale_fmt", "ue8m0");
    q.expect("expert_dtype", "fp4");
    return q.finish();
}

Result<void> read_rope_scaling(ConfigFields r, RopeScaling& yarn) {
    r.expect("rope_type", "yarn");
    yarn.factor = r.number("factor", 1, 1e6);
    yarn.beta_fast = r.number("beta_fast", 1e-3, 1e6);
    yarn.beta_slow = r.number("beta_slow", 1e-3, 1e6);
    yarn.original_positions = r.integer("original_max_position_embeddings", 1, 1 << 30);
    return r.finish();
}

void read_sizes(ConfigFields& t, ModelConfig& c) {
    t.expect("model_type", "deepseek_v41_text");
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

void read_attention_lists(ConfigFields& t, ModelConfig& c) {
    c.ratios = t.integers32("compress_ratios", 0, 2);
    c.kv_sources = t.integers32("kv_source_layer_ids", 0, c.layers - 1);
    c.index_sources = t.integers32("index_source_layer_ids", 0, c.layers - 1);
    c.index_heads = t.integer("index_n_heads", 1, 1024);
    c.index_dim = t.integer("index_head_dim", 32, 4096);
    c.index_topk = t.integer("index_topk", 1, 65536);
    c.candidate_source = t.integer_or("candidate_source_layer_id", 0, c.layers - 1, -1);
    c.candidate_blocks = t.integer_or("candidate_topk_blocks", 1, 1 << 24, 1);
    c.candidate_block = t.integer_or("candidate_block_size", 1, 65536, 1);
    c.hc = t.integer("hc_mult", 1, 16);
    c.hc_iterations = t.integer("hc_sinkhorn_iters", 1, 1000);
    c.hc_eps = static_cast<float>(t.number("hc_eps", 0, 1));
}

void read_engram(ConfigFields& t, ModelConfig& c) {
    c.engram_layers = t.integers32("engram_layer_ids", 0, c.layers - 1);
    c.engram_rows = t.integers("engram_num_embeddings", 1, int64_t{1} << 40);
    c.engram_ngram = t.integer("engram_max_ngram_size", 2, 16);
    c.engram_vocab = t.integer("engram_vocab_size", 2, 1 << 30);
    c.engram_heads = t.integer("engram_n_heads", 1, 64);
    c.engram_dim = t.integer("engram_head_dim", 32, 4096);
    c.engram_pad = t.integer("engram_pad_token_id", 0, c.vocab - 1);
    c.engram_compressed_vocab = t.integer("engram_compressed_vocab_size", 1, c.vocab);
}

void read_draft(ConfigFields& t, ModelConfig& c) {
    c.draft_stages = t.integer("num_nextn_predict_layers", 0, 64);
    t.without_effect({"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids",
                      "dspark_markov_rank", "dspark_n_routed_experts",
                      "dspark_num_experts_per_tok"});
}

bool ascending(const std::vector<int32_t>& list) {
    return std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
}
bool contains(const std::vector<int32_t>& list, int32_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

// The block formats of the kernels need these relations between sizes.
void check_sizes(ConfigFields& t, const ModelConfig& c) {
    const auto multiple = [&](const char* name, int64_t value) {
        if (value % 32 == 0) return;
        t.problem(Code::unsupported, name,
                  cat(value, " is not a multiple of 32, the block of the FP8 and FP4 formats"));
    };
    multiple("hidden_size", c.hidden);
    multiple("moe_intermediate_size", c.moe_hidden);
    multiple("head_dim", c.head_dim);
    multiple("q_lora_rank", c.q_rank);
    multiple("index_head_dim", c.index_dim);
    multiple("engram_head_dim", c.engram_dim);
    multiple("o_lora_rank", int64_t{c.o_groups} * c.o_rank);
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

void check_layers(ConfigFields& t, const ModelConfig& c) {
    if (c.ratios.size() != static_cast<size_t>(c.layers) + c.draft_stages) {
        return t.problem(Code::corrupt, "compress_ratios",
                         cat(c.ratios.size(),
                             " entries, but num_hidden_layers + "
                             "num_nextn_predict_layers is ",
                             c.layers + c.draft_stages));
    }
    if (!ascending(c.kv_sources)) {
        return t.problem(Code::corrupt, "kv_source_layer_ids", "is not ascending");
    }
    if (!ascending(c.index_sources)) {
        return t.problem(Code::corrupt, "index_source_layer_ids", "is not ascending");
    }
    for (int32_t source : c.kv_sources) {
        if (!contains(c.index_sources, source)) {
            return t.problem(Code::unsupported, "index_source_layer_ids",
                             cat("layer ", source, " of kv_source_layer_ids is missing"));
        }
    }
    for (int32_t source : c.index_sources) {
        if (c.ratios[source] == 0) {
            return t.problem(Code::corrupt, "index_source_layer_ids",
                             cat("layer ", source, " has compress ratio 0"));
        }
    }
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        if (c.ratios[layer] == 0) continue;
        const int32_t source = c.kv_source_of(layer);
        if (source < 0 || c.ratios[source] != c.ratios[layer]) {
            return t.problem(Code::corrupt, "kv_source_layer_ids",
                             cat("layer ", layer, " with compress ratio ", c.ratios[layer],
                                 " has no earlier source of that ratio"));
        }
    }
    for (int32_t layer = c.layers; layer < c.layers + c.draft_stages; ++layer) {
        if (c.ratios[layer] != 0) {
            t.problem(Code::unsupported, "compress_ratios",
                      cat(c.ratios[layer], " for draft stage ", layer - c.layers,
                          "; only 0 is supported"));
        }
    }
}

void check_candidates(ConfigFields& t, const ModelConfig& c) {
    if (c.candidate_source < 0) return;
    if (!contains(c.index_sources, c.candidate_source)) {
        return t.problem(Code::corrupt, "candidate_source_layer_id",
                         cat(c.candidate_source, " is not in index_source_layer_ids"));
    }
    for (int32_t later : c.index_sources) {
        if (later > c.candidate_source &&
            c.kv_source_of(later) != c.kv_source_of(c.candidate_source)) {
            return t.problem(Code::unsupported, "candidate_source_layer_id",
                             cat("index layer ", later, " reads a different cache from layer ",
                                 c.candidate_source));
        }
    }
    // With fewer candidate rows than index_topk, a query would attend to arbitrary rows
    // (deepseek-v41.md section 3.7).
    const int64_t rows = int64_t{c.candidate_blocks} * c.candidate_block - (c.candidate_block - 1);
    if (rows < c.index_topk) {
        t.problem(Code::unsupported, "candidate_topk_blocks",
                  cat("there can be as few as ", rows, " candidate rows, fewer than index_topk ",
                      c.index_topk, ": the results would be undefined"));
    }
}

void check_engram(ConfigFields& t, const ModelConfig& c) {
    if (!ascending(c.engram_layers)) {
        return t.problem(Code::corrupt, "engram_layer_ids", "is not ascending");
    }
    if (c.engram_layers.size() > 64) {
        return t.problem(Code::unsupported, "engram_layer_ids",
                         cat(c.engram_layers.size(), " layers; at most 64 are supported"));
    }
    if (c.engram_layers.size() != c.engram_rows.size()) {
        t.problem(Code::corrupt, "engram_num_embeddings",
                  cat(c.engram_rows.size(), " entries for ", c.engram_layers.size(),
                      " engram_layer_ids"));
    }
}

Result<void> read_text(ConfigFields t, ModelConfig& c) {
    read_sizes(t, c);
    read_experts(t, c);
    read_attention_lists(t, c);
    read_engram(t, c);
    read_draft(t, c);
    if (auto r = read_rope_scaling(t.object("rope_scaling"), c.yarn); !r) return r;
    // The checks below index these lists by layer, so the lists must be valid themselves.
    if (t.failed()) return t.finish();
    check_sizes(t, c);
    check_layers(t, c);
    if (t.failed()) return t.finish();
    check_candidates(t, c);
    check_engram(t, c);
    return t.finish();
}

void read_tokens(ConfigFields& top, ModelConfig& c) {
    c.bos = top.integer("bos_token_id", 0, c.vocab - 1);
    c.pad = top.integer_or("pad_token_id", 0, c.vocab - 1, -1);
    c.image_token = top.integer_or("image_token_id", 0, c.vocab - 1, -1);
    c.end_tokens = top.one_or_more("eos_token_id", 0, c.vocab - 1);
    if (c.end_tokens.empty()) top.problem(Code::corrupt, "eos_token_id", "is an empty list");
    c.eos = c.end_tokens.empty() ? 0 : c.end_tokens.front();
}

}  // namespace

Result<ModelConfig> parse(const Json& root) {
    ModelConfig c{};
    c.model_type = "deepseek_v41";
    ConfigFields top(root, "");
    top.without_effect(
        {"model_type", "architectures", "dtype", "torch_dtype", "transformers_version"});
    top.expect("tie_word_embeddings", false, true);
    ConfigFields quantization = top.object("quantization_config");
    ConfigFields text = top.object("text_config");
    c.vision = top.has("vision_config");
    // Report a missing object before its missing fields.
    if (!root["quantization_config"].is_object() || !root["text_config"].is_object()) {
        return tl::unexpected(top.finish().error());
    }
    if (auto r = read_text(std::move(text), c); !r) return tl::unexpected(r.error());
    if (auto r = read_quantization(std::move(quantization)); !r) return tl::unexpected(r.error());
    read_tokens(top, c);
    if (auto r = top.finish(); !r) return tl::unexpected(r.error());
    return c;
}

}  // namespace sluice::deepseek_v41
