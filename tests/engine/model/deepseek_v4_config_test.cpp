// config.json of DeepSeek-V4: the values of the release, every relation between fields, and what is
// refused by name.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/model/config.h"
#include "tests/support/messages.h"
#include "tests/support/paths.h"
#include "tests/support/release_config.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

// A config.json of tests/models without white space: its strings hold none.
std::string compact(const std::string& model) {
    std::string text = read_file(std::string(test::models_folder) + "/" + model + "/config.json");
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    return text;
}

std::string edited(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    return text.replace(at, from.size(), to);
}

std::string edited(const std::string& from, const std::string& to) {
    return edited(compact("dsv4-rand-a"), from, to);
}

ModelConfig accepted(const std::string& text) {
    auto config = parse_config(text);
    REQUIRE_MESSAGE(config, (config ? "" : config.error().message));
    return std::move(*config);
}

void refused(const std::string& text, Code code, const std::vector<std::string>& parts) {
    const auto config = parse_config(text);
    CAPTURE(parts[0]);
    REQUIRE(!config);
    CHECK(config.error().code == code);
    says(config.error().message, parts);
}

struct Edit {
    const char *from, *to;
    std::vector<std::string> parts;
    Code code = Code::unsupported;
};

const char* const ratios = "\"compress_ratios\":[0,4,12,4,12,4,0,0]";

}  // namespace

TEST_CASE("deepseek-v4 config: the release's") {
    const ModelConfig c = accepted(test::release_config_v4);
    CHECK(c.layers == 43);
    CHECK(c.experts == 256);
    CHECK(c.norm_eps == 1e-6f);
    CHECK(c.token_routed_layers == 3);
    CHECK(c.draft_stages == 3);
    CHECK(c.pad == -1);
    CHECK(c.end_tokens == std::vector<int32_t>{1});
    CHECK(c.keys_kept() == 64);
    CHECK(c.arithmetic.weight_tile == 128);
    CHECK(c.arithmetic.activation_group == 128);
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        CAPTURE(layer);
        const LayerRows& rows = c.rows[static_cast<size_t>(layer)];
        const bool window_only = layer < 2, overlaps = !window_only && layer % 2 == 0;
        CHECK(rows.ratio == (window_only ? 0 : overlaps ? 4 : 128));
        CHECK(rows.owner == (window_only ? -1 : layer));
        CHECK(rows.chooser == (overlaps ? layer : -1));
        CHECK(rows.overlap == overlaps);
    }
    CHECK(c.open_slots(2) == 8);
    CHECK(c.open_slots(3) == 128);
    CHECK(c.largest_ratio() == 128);
}

TEST_CASE("deepseek-v4 config: what may be missing, and what has no effect") {
    const ModelConfig whole = accepted(edited("{", "{"));
    CHECK(whole.draft_stages == 2);
    CHECK(accepted(edited("\"expert_dtype\":\"fp4\",", "")).experts == whole.experts);
    // The list of ratios counts the stages, and nothing else does.
    for (const char* stages : {"0", "1", "2", "17"}) {
        const auto text = edited("\"num_nextn_predict_layers\":1",
                                 std::string("\"num_nextn_predict_layers\":") + stages);
        CHECK(accepted(text).draft_stages == 2);
    }
    CHECK(accepted(edited("\"num_nextn_predict_layers\":1,", "")).draft_stages == 2);
    CHECK(accepted(edited(ratios, "\"compress_ratios\":[0,4,12,4,12,4]")).draft_stages == 0);
    CHECK(accepted(edited("\"use_cache\":true,", "")).hidden == whole.hidden);
    CHECK(accepted(edited("\"num_hash_layers\":2", "\"num_hash_layers\":0")).token_routed_layers ==
          0);
    CHECK(accepted(edited("\"num_hash_layers\":2", "\"num_hash_layers\":6")).token_routed_layers ==
          6);
    // Any ratio but 0 and 4 is one of plain groups that are all attended to.
    const ModelConfig other = accepted(edited(ratios, "\"compress_ratios\":[128,4,7,5,2,0,0,0]"));
    for (size_t layer : {0, 2, 3, 4}) {
        CHECK(other.rows[layer].owner == static_cast<int32_t>(layer));
        CHECK(other.rows[layer].chooser == -1);
        CHECK(!other.rows[layer].overlap);
    }
    CHECK(other.rows[5].owner == -1);
}

TEST_CASE("deepseek-v4 config: values that change the meaning are refused by name and value") {
    const std::vector<Edit> edits = {
        {"\"deepseek_v4\"", "\"deepseek_v5\"", {"deepseek_v5", "deepseek_v4", "deepseek_v41"}},
        {"\"expert_dtype\":\"fp4\"", "\"expert_dtype\":\"fp8\"", {"expert_dtype", "fp8"}},
        {"\"type\":\"yarn\"", "\"type\":\"linear\"", {"rope_scaling.type", "linear"}},
        {"\"beta_slow\":1", "\"beta_slow\":1,\"mscale\":0.7", {"rope_scaling.mscale"}},
        {"\"beta_slow\":1", "\"beta_slow\":1,\"rope_type\":\"yarn\"", {"rope_scaling.rope_type"}},
        {"[128,128]", "[32,32]", {"weight_block_size", "[32, 32]", "[128, 128]"}},
        {"[128,128]", "[128]", {"weight_block_size", "[128, 128]"}},
        {"\"fmt\":\"e4m3\"", "\"fmt\":\"e5m2\"", {"quantization_config.fmt", "e5m2"}},
        {"\"ue8m0\"", "\"float\"", {"quantization_config.scale_fmt", "float"}},
        {"\"dynamic\"", "\"static\"", {"quantization_config.activation_scheme", "static"}},
        {"\"quant_method\":\"fp8\"", "\"quant_method\":\"awq\"", {"quant_method", "awq"}},
        {"\"fmt\":", "\"group\":3,\"fmt\":", {"quantization_config.group"}},
        {"sqrtsoftplus", "sigmoid", {"scoring_func", "sigmoid"}},
        {"noaux_tc", "greedy", {"topk_method", "greedy"}},
        {"\"norm_topk_prob\":true", "\"norm_topk_prob\":false", {"norm_topk_prob", "false"}},
        {"\"silu\"", "\"gelu\"", {"hidden_act", "gelu"}},
        {"\"n_shared_experts\":1", "\"n_shared_experts\":2", {"n_shared_experts", "2"}},
        {"\"num_key_value_heads\":1", "\"num_key_value_heads\":8", {"num_key_value_heads", "8"}},
        {"\"attention_bias\":false", "\"attention_bias\":true", {"attention_bias", "true"}},
        {"\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true", {"tie_word_embeddings"}},
        {"\"hc_mult\"", "\"hc_norm\":1,\"hc_mult\"", {"hc_norm"}},
    };
    for (const Edit& edit : edits) refused(edited(edit.from, edit.to), edit.code, edit.parts);
}

TEST_CASE("deepseek-v4 config: lists and sizes that contradict each other are refused") {
    const auto with_ratios = [](const char* list) {
        return edited(ratios, std::string("\"compress_ratios\":") + list);
    };
    for (const char* list : {"[]", "[0,4,12,4,12]", "4", "\"x\"", "null", "[0,4,12,4,12,\"x\"]",
                             "[0,4,12,4,12,1.5]", "[0,4,12,4,12,-4]", "[0,4,12,4,12,65537]"}) {
        CAPTURE(list);
        const auto config = parse_config(with_ratios(list));
        REQUIRE(!config);
        says(config.error().message, {"compress_ratios"});
    }
    refused(with_ratios("[0,4,12,4,12]"), Code::corrupt, {"compress_ratios", "5 entries", "6"});
    refused(with_ratios("[0,4,12,4,12,4,0,4]"), Code::unsupported,
            {"compress_ratios", "4 for draft stage 1"});
    refused(with_ratios("[0,4,12,4,12,4,128,0]"), Code::unsupported,
            {"compress_ratios", "128 for draft stage 0"});

    const std::vector<Edit> edits = {
        {"\"num_hash_layers\":2", "\"num_hash_layers\":7", {"num_hash_layers", "7"}},
        {"\"num_hash_layers\":2", "\"num_hash_layers\":-1", {"num_hash_layers", "-1"}},
        {"\"num_hash_layers\":2,", "", {"num_hash_layers", "missing"}, Code::corrupt},
        {"\"index_head_dim\":64", "\"index_head_dim\":96", {"index_head_dim", "96", "power"}},
        {"\"index_head_dim\":64", "\"index_head_dim\":2048", {"index_head_dim", "2048", "1024"}},
        {"\"index_head_dim\":64", "\"index_head_dim\":48", {"index_head_dim", "48"}},
        {"\"o_groups\":2", "\"o_groups\":6", {"o_groups", "8 heads", "6"}},
        {"\"o_groups\":2", "\"o_groups\":8", {"o_groups", "96", "128"}},
        {"\"o_lora_rank\":64", "\"o_lora_rank\":48", {"o_lora_rank", "96", "128"}},
        {"\"hidden_size\":256", "\"hidden_size\":288", {"hidden_size", "288", "128"}},
        {"\"moe_intermediate_size\":128",
         "\"moe_intermediate_size\":160",
         {"moe_intermediate_size", "160", "128"}},
        {"\"q_lora_rank\":128", "\"q_lora_rank\":160", {"q_lora_rank", "160", "128"}},
        {"\"head_dim\":96", "\"head_dim\":100", {"head_dim", "100"}},
        {"\"qk_rope_head_dim\":32", "\"qk_rope_head_dim\":16", {"qk_rope_head_dim", "80", "64"}},
        {"\"qk_rope_head_dim\":32", "\"qk_rope_head_dim\":96", {"qk_rope_head_dim", "96"}},
        {"\"num_experts_per_tok\":3", "\"num_experts_per_tok\":13", {"num_experts_per_tok", "13"}},
        {"\"rms_norm_eps\":0.001", "\"rms_norm_eps\":0", {"rms_norm_eps"}},
        {"\"type\":\"yarn\"",
         "\"rope_type\":\"yarn\"",
         {"rope_scaling.type", "missing"},
         Code::corrupt},
        {"\"hidden_size\":256,", "", {"hidden_size", "missing"}, Code::corrupt},
    };
    for (const Edit& edit : edits) refused(edited(edit.from, edit.to), edit.code, edit.parts);
    refused(R"({"model_type":"deepseek_v4"})", Code::corrupt, {"missing"});
}

TEST_CASE("deepseek-v4 config: the fields of V4.1 are refused by name, and V4's by V4.1") {
    for (const char* field :
         {"\"kv_source_layer_ids\":[1]", "\"index_source_layer_ids\":[1]",
          "\"candidate_source_layer_id\":1", "\"engram_layer_ids\":[1]", "\"engram_n_heads\":8",
          "\"vision_config\":{}", "\"text_config\":{}"}) {
        CAPTURE(field);
        const std::string text(field), name = text.substr(1, text.find('"', 1) - 1);
        refused(edited("{", "{" + text + ","), Code::unsupported, {name});
    }
    const std::string other = compact("dsv41-tiny");
    for (const char* field : {"\"num_hash_layers\":2", "\"expert_dtype\":\"fp4\""}) {
        CAPTURE(field);
        const std::string text(field), name = text.substr(1, text.find('"', 1) - 1);
        refused(edited(other, "\"text_config\":{", "\"text_config\":{" + text + ","),
                Code::unsupported, {"text_config." + name});
        refused(edited(other, "{", "{" + text + ","), Code::unsupported, {name});
    }
}

}  // namespace sluice
