#include "engine/model/model_shape.h"

#include "engine/model/engram_hash.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr const char* flash_name = "deepseek-v4.1-flash";

std::string list(const std::vector<int64_t>& items) {
    std::string out;
    for (int64_t item : items) out += cat(out.empty() ? "" : ", ", item);
    return "[" + out + "]";
}

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

std::string field(const char* name, auto value) {
    return cat("  \"", name, "\": ", value, ",\n");
}

std::string size_fields(const ModelShape& s) {
    return field("hidden_size", s.hidden) + field("moe_intermediate_size", s.moe) +
           field("num_hidden_layers", s.layers) + field("num_attention_heads", s.heads) +
           field("num_key_value_heads", 1) + field("head_dim", s.head_dim) +
           field("qk_rope_head_dim", s.rope_dim) + field("q_lora_rank", s.q_rank) +
           field("o_lora_rank", s.o_rank) + field("o_groups", s.o_groups) +
           field("hidden_act", "\"silu\"") + field("swiglu_limit", "10.0") +
           field("rms_norm_eps", "1e-20") + field("max_position_embeddings", s.context) +
           field("rope_theta", 10000) +
           field("rope_scaling",
                 "{\"rope_type\": \"yarn\", \"factor\": 16, \"beta_fast\": 32, \"beta_slow\": 1, "
                 "\"original_max_position_embeddings\": 65536}") +
           field("compress_rope_theta", 160000) + field("n_routed_experts", s.experts) +
           field("n_shared_experts", 1) + field("num_experts_per_tok", s.top_k) +
           field("scoring_func", "\"sqrtsoftplus\"") + field("topk_method", "\"noaux_tc\"") +
           field("norm_topk_prob", "true") + field("routed_scaling_factor", "1.5") +
           field("sliding_window", s.window);
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

Vocabulary flash_vocabulary() {
    return {.size = 129280, .compressed = 99092, .bos = 0, .eos = 1, .pad = 2};
}

std::vector<std::string> shape_names() {
    return {flash_name};
}

Result<std::string> shape_config(const std::string& name) {
    if (name == flash_name) return config_text(flash_shape(), flash_vocabulary());
    return fail(Code::usage, cat("unknown shape \"", printable(name), "\"; known: ", flash_name));
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
    text += field("vocab_size", v.size) + size_fields(s) +
            field("compress_ratios", list(layers.ratios)) +
            field("kv_source_layer_ids", list(layers.kv_sources)) +
            field("index_source_layer_ids", list(layers.index_sources)) +
            field("index_n_heads", s.index_heads) + field("index_head_dim", s.index_dim) +
            field("index_topk", s.index_topk);
    if (layers.candidate_source >= 0) {
        text += field("candidate_source_layer_id", layers.candidate_source) +
                field("candidate_topk_blocks", 2048) + field("candidate_block_size", 8);
    }
    text += field("hc_mult", 4) + field("hc_sinkhorn_iters", 20) + field("hc_eps", "1e-06") +
            field("engram_layer_ids", list(layers.engram)) +
            field("engram_num_embeddings", list(engram_rows(s, layers.engram.size()))) +
            field("engram_max_ngram_size", s.engram_ngram) +
            field("engram_vocab_size", s.engram_vocab) + field("engram_n_heads", s.engram_heads) +
            field("engram_head_dim", s.engram_dim) + field("engram_pad_token_id", v.pad) +
            field("engram_compressed_vocab_size", v.compressed);
    return text + "  \"num_nextn_predict_layers\": 0\n }\n}\n";
}

}  // namespace sluice
