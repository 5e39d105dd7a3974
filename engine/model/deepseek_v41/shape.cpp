// Source of deepseek_v41.h: flash_shape() and config_text().
#include "engine/model/deepseek_v41/deepseek_v41.h"
#include "engine/model/engram_hash.h"
#include "io/text.h"

namespace sluice::deepseek_v41 {

namespace {

// The roles of the layers.
struct Layers {
    std::vector<int64_t> ratios, kv_sources, index_sources, engram;
    int candidate_source = -1;
};

Layers layers_of(const ModelShape& s) {
    Layers out;
    for (int layer = 0; layer < s.layers; ++layer) {
        int released = layer < 2 ? 0 : layer < 20 ? 2 : 1;
        out.ratios.push_back(s.release_layers ? released : layer == 0 ? 0 : 2);
    }
    auto below = [&](std::vector<int64_t> layers) {
        std::erase_if(layers, [&](int64_t layer) { return layer >= s.layers; });
        return layers;
    };
    if (!s.release_layers) {
        out.kv_sources = out.index_sources = below({1});
        out.engram = {0};
        return out;
    }
    out.kv_sources = below({2, 8, 14, 20});
    out.index_sources = below({2, 8, 14, 20, 24, 28, 32, 36});
    out.engram = below({1, 14});
    out.candidate_source = s.layers > 20 ? 20 : -1;
    return out;
}

std::string size_fields(const ModelShape& s) {
    return field_line("hidden_size", s.hidden) + field_line("moe_intermediate_size", s.moe) +
           field_line("num_hidden_layers", s.layers) + field_line("num_attention_heads", s.heads) +
           field_line("num_key_value_heads", 1) + field_line("head_dim", s.head_dim) +
           field_line("qk_rope_head_dim", s.rope_dim) + field_line("q_lora_rank", s.q_rank) +
           field_line("o_lora_rank", s.o_rank) + field_line("o_groups", s.o_groups) +
           field_line("hidden_act", "\"silu\"") + field_line("swiglu_limit", "10.0") +
           field_line("rms_norm_eps", "1e-20") + field_line("max_position_embeddings", s.context) +
           field_line("rope_theta", 10000) +
           field_line("rope_scaling",
                 "{\"rope_type\": \"yarn\", \"factor\": 16, \"beta_fast\": 32, \"beta_slow\": 1, "
                 "\"original_max_position_embeddings\": 65536}") +
           field_line("compress_rope_theta", 160000) + field_line("n_routed_experts", s.experts) +
           field_line("n_shared_experts", 1) + field_line("num_experts_per_tok", s.top_k) +
           field_line("scoring_func", "\"sqrtsoftplus\"") + field_line("topk_method", "\"noaux_tc\"") +
           field_line("norm_topk_prob", "true") + field_line("routed_scaling_factor", "1.5") +
           field_line("sliding_window", s.window);
}

// The number of rows of each Engram table: the sum of its primes.
std::vector<int64_t> engram_rows(const ModelShape& s, size_t tables) {
    auto columns = static_cast<size_t>((s.engram_ngram - 1) * s.engram_heads);
    auto primes = primes_from(s.engram_vocab, columns * tables);
    std::vector<int64_t> rows(tables, 0);
    for (size_t i = 0; i < primes.size(); ++i) rows[i / columns] += primes[i];
    return rows;
}

}  // namespace

ModelShape flash_shape() {
    ModelShape shape;
    shape.release_layers = true;
    shape.layers = 40, shape.experts = 384, shape.heads = 64, shape.head_dim = 512;
    shape.q_rank = 1280, shape.o_rank = 1024, shape.o_groups = 8, shape.index_heads = 32;
    shape.context = 1 << 20, shape.engram_vocab = 16000000, shape.engram_ngram = 4;
    return shape;
}

std::string config_text(const ModelShape& s, const Vocabulary& v) {
    Layers layers = layers_of(s);
    std::string text =
        "{\n \"architectures\": [\"DeepseekV41ForCausalLM\"],\n"
        " \"model_type\": \"deepseek_v41\",\n \"dtype\": \"bfloat16\",\n";
    text += cat(" \"bos_token_id\": ", v.bos, ",\n \"eos_token_id\": ", v.eos,
                ",\n \"pad_token_id\": ", v.pad, ",\n");
    text +=
        " \"quantization_config\": {\"quant_method\": \"fp8\", \"activation_scheme\": \"dynamic\", "
        "\"weight_block_size\": [32, 32], \"scale_fmt\": \"ue8m0\", \"expert_dtype\": \"fp4\"},\n"
        " \"text_config\": {\n  \"model_type\": \"deepseek_v41_text\",\n";
    text += field_line("vocab_size", v.size) + size_fields(s) +
            field_line("compress_ratios", list_text(layers.ratios)) +
            field_line("kv_source_layer_ids", list_text(layers.kv_sources)) +
            field_line("index_source_layer_ids", list_text(layers.index_sources)) +
            field_line("index_n_heads", s.index_heads) + field_line("index_head_dim", s.index_dim) +
            field_line("index_topk", s.index_topk);
    if (layers.candidate_source >= 0) {
        text += field_line("candidate_source_layer_id", layers.candidate_source) +
                field_line("candidate_topk_blocks", 2048) + field_line("candidate_block_size", 8);
    }
    text += field_line("hc_mult", 4) + field_line("hc_sinkhorn_iters", 20) + field_line("hc_eps", "1e-06") +
            field_line("engram_layer_ids", list_text(layers.engram)) +
            field_line("engram_num_embeddings", list_text(engram_rows(s, layers.engram.size()))) +
            field_line("engram_max_ngram_size", s.engram_ngram) +
            field_line("engram_vocab_size", s.engram_vocab) + field_line("engram_n_heads", s.engram_heads) +
            field_line("engram_head_dim", s.engram_dim) + field_line("engram_pad_token_id", v.pad) +
            field_line("engram_compressed_vocab_size", v.compressed);
    return text + "  \"num_nextn_predict_layers\": 0\n }\n}\n";
}

}  // namespace sluice::deepseek_v41
