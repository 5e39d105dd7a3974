// Source of deepseek_v4.h: flash_shape(), pro_shape() and config_text() (deepseek-v4.md section 1).
#include "engine/model/deepseek_v4/deepseek_v4.h"
#include "io/text.h"

namespace sluice::deepseek_v4 {

namespace {

std::vector<int64_t> ratios_of(const ModelShape& s) {
    std::vector<int64_t> ratios;
    for (int layer = 0; layer < s.layers; ++layer) {
        if (layer < 2) {
            ratios.push_back(s.first_ratio);
        } else {
            ratios.push_back(layer % 2 == 0 ? 4 : 128);
        }
    }
    return ratios;
}

}  // namespace

ModelShape flash_shape() {
    ModelShape shape;
    shape.release_layers = true;
    shape.hidden = 4096, shape.moe = 2048, shape.layers = 43, shape.experts = 256;
    shape.heads = 64, shape.head_dim = 512, shape.rope_dim = 64;
    shape.q_rank = 1024, shape.o_rank = 1024, shape.o_groups = 8;
    shape.index_heads = 64, shape.index_dim = 128, shape.index_topk = 512;
    shape.context = 1 << 20, shape.token_routed_layers = 3;
    return shape;
}

ModelShape pro_shape() {
    ModelShape shape = flash_shape();
    shape.hidden = 7168, shape.moe = 3072, shape.layers = 61, shape.experts = 384;
    shape.heads = 128, shape.q_rank = 1536, shape.o_groups = 16;
    shape.index_topk = 1024, shape.first_ratio = 128, shape.route_scale = 2.5;
    return shape;
}

std::string config_text(const ModelShape& s, const Vocabulary& v) {
    std::string text =
        "{\n  \"architectures\": [\"DeepseekV4ForCausalLM\"],\n  \"model_type\": "
        "\"deepseek_v4\",\n  \"torch_dtype\": \"bfloat16\",\n  \"expert_dtype\": \"fp4\",\n"
        "  \"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", "
        "\"activation_scheme\": \"dynamic\", \"scale_fmt\": \"ue8m0\", \"weight_block_size\": "
        "[128, 128]},\n"
        "  \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 16, \"beta_fast\": 32, "
        "\"beta_slow\": 1, \"original_max_position_embeddings\": 65536},\n"
        "  \"hidden_act\": \"silu\",\n  \"scoring_func\": \"sqrtsoftplus\",\n  \"topk_method\": "
        "\"noaux_tc\",\n  \"norm_topk_prob\": true,\n  \"swiglu_limit\": 10.0,\n"
        "  \"rms_norm_eps\": 1e-06,\n  \"hc_eps\": 1e-06,\n";
    const std::pair<const char*, int64_t> fields[] = {
        {"bos_token_id", v.bos},
        {"eos_token_id", v.eos},
        {"vocab_size", v.size},
        {"hidden_size", s.hidden},
        {"moe_intermediate_size", s.moe},
        {"num_hidden_layers", s.layers},
        {"num_hash_layers", std::min(s.token_routed_layers, s.layers)},
        {"num_attention_heads", s.heads},
        {"num_key_value_heads", 1},
        {"head_dim", s.head_dim},
        {"qk_rope_head_dim", s.rope_dim},
        {"q_lora_rank", s.q_rank},
        {"o_lora_rank", s.o_rank},
        {"o_groups", s.o_groups},
        {"n_routed_experts", s.experts},
        {"n_shared_experts", 1},
        {"num_experts_per_tok", s.top_k},
        {"num_nextn_predict_layers", 1},
        {"sliding_window", s.window},
        {"index_n_heads", s.index_heads},
        {"index_head_dim", s.index_dim},
        {"index_topk", s.index_topk},
        {"hc_mult", 4},
        {"hc_sinkhorn_iters", 20},
        {"rope_theta", 10000},
        {"compress_rope_theta", 160000},
        {"max_position_embeddings", s.context},
    };
    for (const auto& [name, value] : fields) text += field_line(name, value);
    text += field_line("compress_ratios", list_text(ratios_of(s)));
    return text + cat("  \"routed_scaling_factor\": ", s.route_scale, "\n}\n");
}

}  // namespace sluice::deepseek_v4
