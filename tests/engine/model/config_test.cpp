// config.json: the values of the release, and everything that must be refused by name.
#include "engine/model/config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "tests/support/paths.h"
#include "tests/support/release_config.h"

namespace sluice {
namespace {

std::string tiny_config() {
    std::ifstream file(std::string(test::models_folder) + "/dsv41-tiny/config.json");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string edited(const std::string& from, const std::string& to) {
    std::string text = tiny_config();
    const size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    return text.replace(at, from.size(), to);
}

void refused(const std::string& text, Code code, const std::vector<std::string>& parts) {
    const auto config = parse_config(text);
    CAPTURE(parts[0]);
    REQUIRE(!config);
    CHECK(config.error().code == code);
    for (const std::string& part : parts) {
        CHECK_MESSAGE(config.error().message.find(part) != std::string::npos, "expected \"", part,
                      "\" in \"", config.error().message, "\"");
    }
    CHECK(config.error().message.find('\n') == std::string::npos);
}

// The config with the end tokens of a generation config.
Result<ModelConfig> joined(const std::string& text, const char* generation) {
    auto config = parse_config(text);
    REQUIRE(config);
    if (auto ok = join_generation_config(generation, *config); !ok)
        return tl::unexpected(ok.error());
    return config;
}

struct Edit {
    const char *from, *to;
    std::vector<std::string> parts;
    Code code = Code::unsupported;
};

}  // namespace

// Later checks index this list by layer.
TEST_CASE("compress_ratios of any shape but the right one are refused by name") {
    std::string text = tiny_config();
    const size_t begin = text.find("\"compress_ratios\"");
    REQUIRE(begin != std::string::npos);
    const size_t end = text.find(']', begin) + 1;
    for (const char* value : {"[]", "\"x\"", "null", "[-1,0,2,2,2,1,1,1]", "[0,0,3,2,2,1,1,1]",
                              "[0,0,1.5,2,2,1,1,1]", "[0,0,\"x\",2,2,1,1,1]", "[1000000000]"}) {
        std::string changed = text;
        changed.replace(begin, end - begin, std::string("\"compress_ratios\": ") + value);
        const auto config = parse_config(changed);
        CAPTURE(value);
        REQUIRE(!config);
        CHECK(config.error().message.find("compress_ratios") != std::string::npos);
    }
    std::string without = text;
    without.erase(begin, text.find(',', end) + 1 - begin);
    CHECK(!parse_config(without));
}

TEST_CASE("a generation config that is not an object is refused") {
    CHECK(!joined(tiny_config(), "[]"));
}

TEST_CASE("the release's config") {
    const auto c = parse_config(test::release_config);
    REQUIRE_MESSAGE(c, (c ? "" : c.error().message));
    CHECK(c->hidden == 5120);
    CHECK(c->experts == 384);
    CHECK(c->norm_eps == 1e-20f);
    CHECK(c->engram_columns() == 24);
    CHECK(c->vision);
    CHECK(c->draft_stages == 3);
    CHECK(c->end_tokens == std::vector<int32_t>{1});
    CHECK(c->rows[1].owner == -1);
    CHECK(c->rows[7].owner == 2);
    CHECK(c->rows[19].owner == 14);
    CHECK(c->rows[39].owner == 20);
    CHECK(c->rows[23].chooser == 20);
    CHECK(c->rows[27].chooser == 24);
    CHECK(c->rows[39].chooser == 36);
}

TEST_CASE("fields without effect may be missing or have any value") {
    CHECK(parse_config(edited("\"dtype\": \"bfloat16\",", "")));
    CHECK(parse_config(edited("\"hidden_act\"", "\"initializer_range\":0.5,\"hidden_act\"")));
    CHECK(parse_config(edited("\"tie_word_embeddings\": false,", "")));
}

TEST_CASE("values that change the meaning are refused by name and value") {
    const std::vector<Edit> edits = {
        {"\"deepseek_v41\"", "\"llama\"", {"model_type", "llama", "deepseek_v41"}},
        {"\"deepseek_v41_text\"", "\"gpt\"", {"text_config.model_type", "gpt"}},
        {"sqrtsoftplus", "sigmoid", {"text_config.scoring_func", "sigmoid", "sqrtsoftplus"}},
        {"noaux_tc", "greedy", {"topk_method", "greedy"}},
        {"\"norm_topk_prob\": true", "\"norm_topk_prob\": false", {"norm_topk_prob", "false"}},
        {"\"silu\"", "\"gelu\"", {"hidden_act", "gelu"}},
        {"\"tie_word_embeddings\": false",
         "\"tie_word_embeddings\": true",
         {"tie_word_embeddings", "true"}},
        {"\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2", {"num_key_value_heads", "2"}},
        {"\"n_shared_experts\": 1", "\"n_shared_experts\": 2", {"n_shared_experts", "2"}},
        {"\"quant_method\": \"fp8\"",
         "\"quant_method\": \"awq\"",
         {"quantization_config.quant_method", "awq"}},
        {"\"dynamic\"", "\"static\"", {"activation_scheme", "static"}},
        {"   32,\n   32\n", "   128,\n   128\n", {"weight_block_size", "[128, 128]", "[32, 32]"}},
        {"\"ue8m0\"", "\"float\"", {"scale_fmt", "float"}},
        {"\"expert_dtype\": \"fp4\"", "\"expert_dtype\": \"fp8\"", {"expert_dtype", "fp8"}},
        {"\"yarn\"", "\"linear\"", {"rope_scaling.rope_type", "linear"}},
        {"\"candidate_topk_blocks\": 32",
         "\"candidate_topk_blocks\": 16",
         {"candidate_topk_blocks", "121", "128"}},
        {"\"hidden_act\"", "\"q_head_norm\": true, \"hidden_act\"", {"text_config.q_head_norm"}},
        {"\"beta_slow\": 1,", "\"beta_slow\": 1, \"mscale\": 0.7,", {"rope_scaling.mscale"}},
        {"\"scale_fmt\"", "\"group\": 3, \"scale_fmt\"", {"quantization_config.group"}},
        {"\"bos_token_id\"", "\"new\\u001bfield\": 1, \"bos_token_id\"", {"new\\x1bfield"}},
    };
    for (const Edit& edit : edits) {
        refused(edited(edit.from, edit.to), edit.code, edit.parts);
    }
}

TEST_CASE("sizes that are out of range or inconsistent are refused") {
    const std::vector<Edit> edits = {
        {"\"vocab_size\": 4096", "\"vocab_size\": 4294967296", {"vocab_size", "4294967296"}},
        {"\"hidden_size\": 256", "\"hidden_size\": -256", {"hidden_size", "-256"}},
        {"\"hidden_size\": 256", "\"hidden_size\": 250", {"hidden_size", "250", "32"}},
        {"\"num_hidden_layers\": 8", "\"num_hidden_layers\": 0", {"num_hidden_layers"}},
        {"\"num_experts_per_tok\": 6", "\"num_experts_per_tok\": 65", {"num_experts_per_tok"}},
        {"\"o_groups\": 2", "\"o_groups\": 3", {"o_groups", "3"}},
        {"\"qk_rope_head_dim\": 16", "\"qk_rope_head_dim\": 64", {"qk_rope_head_dim", "64"}},
        {"\"rms_norm_eps\": 1e-20", "\"rms_norm_eps\": 0", {"rms_norm_eps"}},
        {"\"hidden_size\": 256", "\"hidden_size\": 3.5", {"hidden_size"}, Code::corrupt},
        {"\"hidden_size\": 256", "\"hidden_size\": \"256\"", {"hidden_size"}, Code::corrupt},
        {"\"hidden_size\": 256,", "", {"text_config.hidden_size", "missing"}, Code::corrupt},
        {"\"eos_token_id\": 1,", "", {"eos_token_id", "missing"}, Code::corrupt},
        {"\"eos_token_id\": 1,", "\"eos_token_id\": 4096,", {"eos_token_id", "4096"}},
        {"\"kv_source_layer_ids\": [\n   2,\n   5\n",
         "\"kv_source_layer_ids\": [\n   5,\n   2\n",
         {"kv_source_layer_ids", "ascending"},
         Code::corrupt},
        {"\"kv_source_layer_ids\": [\n   2,\n   5\n",
         "\"kv_source_layer_ids\": [\n   2\n",
         {"kv_source_layer_ids", "layer 5"},
         Code::corrupt},
        {"\"index_source_layer_ids\": [\n   2,",
         "\"index_source_layer_ids\": [\n   3,",
         {"index_source_layer_ids", "layer 2"}},
        {"\"num_nextn_predict_layers\": 0",
         "\"num_nextn_predict_layers\": 1",
         {"compress_ratios", "8"},
         Code::corrupt},
        {"   24064,\n", "", {"engram_num_embeddings", "1"}, Code::corrupt},
    };
    for (const Edit& edit : edits) refused(edited(edit.from, edit.to), edit.code, edit.parts);
}

TEST_CASE("text that is not a config is refused") {
    refused("", Code::corrupt, {"not valid JSON"});
    refused("[]", Code::corrupt, {"expected an object"});
    refused("{\"model_type\":\"deepseek_v41\"}", Code::corrupt, {"quantization_config", "missing"});
    refused("{\"model_type\":\"deepseek_v41\",\"quantization_config\":3,\"text_config\":{}}",
            Code::corrupt, {"quantization_config"});
    refused("{\"model_type\":7}", Code::corrupt, {"model_type"});
}

TEST_CASE("end tokens are the union of config and generation config") {
    const std::string text = tiny_config();
    CHECK(joined(text, "{\"eos_token_id\": 5}")->end_tokens == std::vector<int32_t>{1, 5});
    CHECK(joined(text, "{\"eos_token_id\": [7, 1, 9], \"temperature\": 1}")->end_tokens ==
          std::vector<int32_t>{1, 7, 9});
    CHECK(joined(text, "{}")->end_tokens == std::vector<int32_t>{1});
    CHECK(parse_config(edited("\"eos_token_id\": 1,", "\"eos_token_id\": [3, 4],"))->end_tokens ==
          std::vector<int32_t>{3, 4});
    for (const char* bad : {"{\"eos_token_id\": 4096}", "{\"eos_token_id\": -1}",
                            "{\"eos_token_id\": [1, 99999]}", "{\"eos_token_id\": \"x\"}", "{"}) {
        CAPTURE(bad);
        const auto config = joined(text, bad);
        REQUIRE(!config);
        CHECK(config.error().code == Code::corrupt);
    }
}

}  // namespace sluice
