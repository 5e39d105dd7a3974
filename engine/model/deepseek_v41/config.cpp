// Source of deepseek_v41.h: parse(), which reads config.json (deepseek-v41.md section 1).
#include <algorithm>
#include <cmath>

#include "engine/model/deepseek/config_parts.h"
#include "engine/model/deepseek_v41/deepseek_v41.h"
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

// The lists of config.json that say which layers own rows and which choose among them.
struct Sources {
    std::vector<int32_t> ratios, kv, index;
};

void read_attention_lists(ConfigFields& t, ModelConfig& c, Sources& s) {
    s.ratios = t.integers32("compress_ratios", 0, 2);
    s.kv = t.integers32("kv_source_layer_ids", 0, c.layers - 1);
    s.index = t.integers32("index_source_layer_ids", 0, c.layers - 1);
    c.candidate_source = t.integer_or("candidate_source_layer_id", 0, c.layers - 1, -1);
    c.candidate_blocks = t.integer_or("candidate_topk_blocks", 1, 1 << 24, 1);
    c.candidate_block = t.integer_or("candidate_block_size", 1, 65536, 1);
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

bool ascending(const std::vector<int32_t>& list) {
    return std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
}
bool contains(const std::vector<int32_t>& list, int32_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

// The nearest source at or below the layer, or -1.
int32_t nearest(const std::vector<int32_t>& sources, int32_t layer) {
    int32_t best = -1;
    for (int32_t source : sources) {
        if (source <= layer) best = std::max(best, source);
    }
    return best;
}

void check_layers(ConfigFields& t, const ModelConfig& c, const Sources& s) {
    if (s.ratios.size() != static_cast<size_t>(c.layers) + c.draft_stages) {
        return t.problem(Code::corrupt, "compress_ratios",
                         cat(s.ratios.size(),
                             " entries, but num_hidden_layers + "
                             "num_nextn_predict_layers is ",
                             c.layers + c.draft_stages));
    }
    if (!ascending(s.kv)) {
        return t.problem(Code::corrupt, "kv_source_layer_ids", "is not ascending");
    }
    if (!ascending(s.index)) {
        return t.problem(Code::corrupt, "index_source_layer_ids", "is not ascending");
    }
    for (int32_t source : s.kv) {
        if (!contains(s.index, source)) {
            return t.problem(Code::unsupported, "index_source_layer_ids",
                             cat("layer ", source, " of kv_source_layer_ids is missing"));
        }
    }
    for (int32_t source : s.index) {
        if (s.ratios[source] == 0) {
            return t.problem(Code::corrupt, "index_source_layer_ids",
                             cat("layer ", source, " has compress ratio 0"));
        }
    }
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        if (s.ratios[layer] == 0) continue;
        const int32_t source = nearest(s.kv, layer);
        if (source < 0 || s.ratios[source] != s.ratios[layer]) {
            return t.problem(Code::corrupt, "kv_source_layer_ids",
                             cat("layer ", layer, " with compress ratio ", s.ratios[layer],
                                 " has no earlier source of that ratio"));
        }
    }
    for (int32_t layer = c.layers; layer < c.layers + c.draft_stages; ++layer) {
        if (s.ratios[layer] != 0) {
            t.problem(Code::unsupported, "compress_ratios",
                      cat(s.ratios[layer], " for draft stage ", layer - c.layers,
                          "; only 0 is supported"));
        }
    }
}

void check_candidates(ConfigFields& t, const ModelConfig& c, const Sources& s) {
    if (c.candidate_source < 0) return;
    if (!contains(s.index, c.candidate_source)) {
        return t.problem(Code::corrupt, "candidate_source_layer_id",
                         cat(c.candidate_source, " is not in index_source_layer_ids"));
    }
    for (int32_t later : s.index) {
        if (later > c.candidate_source &&
            nearest(s.kv, later) != nearest(s.kv, c.candidate_source)) {
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

void set_rows(ModelConfig& c, const Sources& s) {
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        LayerRows& one = c.rows.emplace_back();
        one.ratio = s.ratios[layer];
        if (one.ratio == 0) continue;
        one.owner = nearest(s.kv, layer);
        one.chooser = nearest(s.index, layer);
    }
}

Result<void> read_text(ConfigFields t, ModelConfig& c) {
    Sources sources;
    t.expect("model_type", "deepseek_v41_text");
    deepseek::read_sizes(t, c);
    deepseek::read_experts(t, c);
    read_attention_lists(t, c, sources);
    deepseek::read_indexer(t, c);
    deepseek::read_hyper_connections(t, c);
    read_engram(t, c);
    c.draft_stages = t.integer("num_nextn_predict_layers", 0, 64);
    deepseek::read_unused_draft(t);
    auto rope = deepseek::read_rope_scaling(t.object("rope_scaling"), "rope_type", c.yarn);
    if (!rope) return rope;
    // The checks below index these lists by layer, so the lists must be valid themselves.
    if (t.failed()) return t.finish();
    deepseek::check_sizes(t, c);
    if (c.engram_dim % 32 != 0) {
        t.problem(Code::unsupported, "engram_head_dim",
                  cat(c.engram_dim,
                      " is not a multiple of 32, the block of the FP8 and FP4 formats"));
    }
    check_layers(t, c, sources);
    if (t.failed()) return t.finish();
    check_candidates(t, c, sources);
    check_engram(t, c);
    if (!t.failed()) set_rows(c, sources);
    return t.finish();
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
    deepseek::read_tokens(top, c);
    if (auto r = top.finish(); !r) return tl::unexpected(r.error());
    return c;
}

}  // namespace sluice::deepseek_v41
