// Source of deepseek_v4.h: parse(), which reads config.json (deepseek-v4.md section 1).
#include <bit>

#include "engine/model/deepseek/config_parts.h"
#include "engine/model/deepseek_v4/deepseek_v4.h"
#include "io/text.h"

namespace sluice::deepseek_v4 {

namespace {

constexpr int32_t overlapping_ratio = 4;  // its groups overlap, and an indexer chooses among its rows
constexpr int32_t key_group = 64;         // values per scale of window keys and compressed rows

void set_arithmetic(Arithmetic& a) {
    a.weight_tile = 128;
    a.activation_group = 128;
    a.window_keys = a.compressed_rows = Requant::fp8_64;
    a.keys_keep_rope = true;
    a.head_norm = true;
    a.own_mix = true;
    a.index_compressor = true;
    a.route_sum_floor = 0;
    a.route_normalises_one = true;
}

Result<void> read_quantization(ConfigFields q) {
    q.expect("quant_method", "fp8");
    q.expect("fmt", "e4m3");
    q.expect("activation_scheme", "dynamic");
    q.expect("weight_block_size", std::vector<int64_t>{128, 128});
    q.expect("scale_fmt", "ue8m0");
    return q.finish();
}

// The list has an entry for each layer, then one for each stage of the draft head.
// num_nextn_predict_layers is 1 in every release, whatever the number of stages.
void read_ratios(ConfigFields& t, ModelConfig& c) {
    const std::vector<int32_t> ratios = t.integers32("compress_ratios", 0, 65536);
    if (t.failed()) return;
    const auto layers = static_cast<size_t>(c.layers);
    if (ratios.size() < layers || ratios.size() > layers + 64) {
        return t.problem(Code::corrupt, "compress_ratios",
                         cat(ratios.size(), " entries for ", c.layers,
                             " layers and the stages of the draft head"));
    }
    c.draft_stages = static_cast<int32_t>(ratios.size() - layers);
    for (size_t stage = layers; stage < ratios.size(); ++stage) {
        if (ratios[stage] == 0) continue;
        return t.problem(Code::unsupported, "compress_ratios",
                         cat(ratios[stage], " for draft stage ", stage - layers,
                             "; only 0 is supported"));
    }
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        LayerRows& rows = c.rows.emplace_back();
        rows.ratio = ratios[layer];
        if (rows.ratio == 0) continue;
        rows.owner = layer;
        rows.overlap = rows.ratio == overlapping_ratio;
        rows.chooser = rows.overlap ? layer : -1;
    }
}

void check_formats(ConfigFields& t, const ModelConfig& c) {
    if ((c.head_dim - c.rope_dim) % key_group != 0) {
        t.problem(Code::unsupported, "qk_rope_head_dim",
                  cat(c.rope_dim, " leaves ", c.head_dim - c.rope_dim, " of ", c.head_dim,
                      " values, not a multiple of ", key_group,
                      ", the group in which keys are quantised"));
    }
    if (!std::has_single_bit(static_cast<uint32_t>(c.index_dim)) || c.index_dim > 1024) {
        t.problem(Code::unsupported, "index_head_dim",
                  cat(c.index_dim, " is not a power of two up to 1024, as the Hadamard transform "
                                   "needs"));
    }
    const int64_t group_cols = int64_t{c.heads} * c.head_dim / c.o_groups;
    if (group_cols % 128 != 0) {
        t.problem(Code::unsupported, "o_groups",
                  cat("a group of ", group_cols,
                      " values is not a multiple of 128, the tile of FP8 weights"));
    }
}

}  // namespace

Result<ModelConfig> parse(const Json& root) {
    ModelConfig c{};
    c.model_type = "deepseek_v4";
    c.candidate_source = -1;
    c.candidate_blocks = c.candidate_block = 1;
    c.engram_ngram = 1;
    set_arithmetic(c.arithmetic);
    ConfigFields t(root, "");
    t.expect("model_type", "deepseek_v4");
    deepseek::read_sizes(t, c);
    deepseek::read_experts(t, c);
    c.token_routed_layers = t.integer("num_hash_layers", 0, c.layers);
    deepseek::read_indexer(t, c);
    deepseek::read_hyper_connections(t, c);
    read_ratios(t, c);
    if (t.has("expert_dtype")) t.expect("expert_dtype", "fp4");
    t.without_effect({"num_nextn_predict_layers"});
    deepseek::read_unused_draft(t);
    deepseek::read_tokens(t, c);
    ConfigFields quantization = t.object("quantization_config");
    ConfigFields rope = t.object("rope_scaling");
    if (t.failed()) return tl::unexpected(t.finish().error());
    if (auto r = read_quantization(std::move(quantization)); !r) return tl::unexpected(r.error());
    if (auto r = deepseek::read_rope_scaling(std::move(rope), "type", c.yarn); !r) {
        return tl::unexpected(r.error());
    }
    deepseek::check_sizes(t, c);
    check_formats(t, c);
    if (auto r = t.finish(); !r) return tl::unexpected(r.error());
    return c;
}

}  // namespace sluice::deepseek_v4
