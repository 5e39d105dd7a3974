#include "engine/model/model_deepseek_v41.h"

#include <algorithm>

#include "io/text.h"

namespace sluice::deepseek_v41 {

namespace {

// Values per scale: FP8 weights in both directions, FP4 weights and table rows along the row.
constexpr uint64_t tile = 32;

// Collects the specs of tensors that share a name prefix and a class.
class Walk {
 public:
    explicit Walk(std::vector<TensorSpec>& specs) : specs_(specs) {}

    Walk& in(std::string prefix) {
        prefix_ = std::move(prefix);
        return *this;
    }
    Walk& of(const char* what, Home home = Home::dense) {
        what_ = what;
        home_ = home;
        return *this;
    }

    void vector(std::string_view name, const bf16*& data, int32_t size) {
        add(name, Storage::bf16, {static_cast<uint64_t>(size)}, &data);
    }
    void vector(std::string_view name, const float*& data, int32_t size) {
        add(name, Storage::f32, {static_cast<uint64_t>(size)}, &data);
    }
    void matrix(std::string_view name, const bf16*& data, int32_t rows, int32_t cols) {
        add(name, Storage::bf16, shape(rows, cols), &data);
    }
    void matrix(std::string_view name, Bf16Matrix& m, int32_t rows, int32_t cols) {
        m.rows = rows, m.cols = cols;
        add(name, Storage::bf16, shape(rows, cols), &m.data);
    }
    void matrix(std::string_view name, F32Matrix& m, int32_t rows, int32_t cols) {
        m.rows = rows, m.cols = cols;
        add(name, Storage::f32, shape(rows, cols), &m.data);
    }
    void matrix(std::string_view name, Fp8Matrix& m, int32_t rows, int32_t cols) {
        m.rows = rows, m.cols = cols;
        add(cat(std::string(name), ".weight"), Storage::fp8, shape(rows, cols), &m.codes);
        auto [r, c] = std::pair(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols));
        add(cat(std::string(name), ".scale"), Storage::e8m0,
            {(r + tile - 1) / tile, (c + tile - 1) / tile}, &m.scales);
    }
    void add(std::string_view name, Storage storage, std::vector<uint64_t> shape,
             decltype(TensorSpec::address) address) {
        specs_.push_back(
            {prefix_ + std::string(name), storage, std::move(shape), what_, home_, address});
    }

 private:
    static std::vector<uint64_t> shape(int32_t rows, int32_t cols) {
        return {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)};
    }

    std::vector<TensorSpec>& specs_;
    std::string prefix_;
    const char* what_ = "";
    Home home_ = Home::dense;
};

bool contains(const std::vector<int32_t>& list, int32_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

void walk_hyper(Walk& walk, const ModelConfig& c, const std::string& name, HyperWeights& w) {
    const int32_t rows = (2 + c.hc) * c.hc;
    walk.matrix(name + "_fn", w.fn, rows, c.hc * c.hidden);
    walk.vector(name + "_base", w.base, rows);
    walk.vector(name + "_scale", w.scale, 3);
}

void walk_attention(Walk& walk, const ModelConfig& c, int32_t layer, LayerWeights& w) {
    walk.of("attention");
    walk.vector("attn.attn_sink", w.sink, c.heads);
    walk.matrix("attn.wq_a", w.wq_a, c.q_rank, c.hidden);
    walk.vector("attn.q_norm.weight", w.q_norm, c.q_rank);
    walk.matrix("attn.wq_b", w.wq_b, c.heads * c.head_dim, c.q_rank);
    walk.matrix("attn.wkv", w.wkv, c.head_dim, c.hidden);
    walk.vector("attn.kv_norm.weight", w.kv_norm, c.head_dim);
    walk.matrix("attn.wo_a", w.wo_a, c.o_groups * c.o_rank, c.heads * c.head_dim / c.o_groups);
    walk.matrix("attn.wo_b", w.wo_b, c.hidden, c.o_groups * c.o_rank);

    const bool owner = contains(c.kv_sources, layer);
    if (owner) {
        walk.of("compressor");
        CompressorWeights& p = w.compressor.emplace();
        walk.matrix("attn.compressor.wkv.weight", p.wkv, c.head_dim, c.hidden);
        if (c.ratios[layer] > 1) {
            walk.matrix("attn.compressor.wgate.weight", p.wgate, c.head_dim, c.hidden);
        }
        walk.vector("attn.compressor.norm.weight", p.norm, c.head_dim);
    }
    if (contains(c.index_sources, layer)) {
        walk.of("indexer");
        IndexerWeights& x = w.indexer.emplace();
        walk.matrix("attn.indexer.wq_b", x.wq_b, c.index_heads * c.index_dim, c.q_rank);
        walk.matrix("attn.indexer.weights_proj.weight", x.weights_proj, c.index_heads, c.hidden);
        if (owner) {
            walk.matrix("attn.indexer.wk.weight", x.wk, c.index_dim, c.head_dim);
            walk.vector("attn.indexer.k_norm.weight", x.k_norm, c.index_dim);
        }
    }
}

void walk_engram(Walk& walk, const ModelConfig& c, size_t which, LayerWeights& w) {
    EngramWeights& e = w.engram.emplace();
    walk.of("Engram projections");
    walk.matrix("engram.wkv", e.wkv, (c.hc + 1) * c.hidden, c.engram_columns() * c.engram_dim);
    walk.matrix("engram.q_weight", e.q_weight, c.hc, c.hidden);
    walk.matrix("engram.k_weight", e.k_weight, c.hc, c.hidden);
    walk.of("Engram tables", Home::table);
    const uint64_t rows = static_cast<uint64_t>(c.engram_rows[which]);
    const uint64_t dim = static_cast<uint64_t>(c.engram_dim);
    walk.add("engram.embed.weight", Storage::fp8, {rows, dim}, {});
    walk.add("engram.embed.scale", Storage::e8m0, {rows, dim / tile}, {});
}

void walk_ffn(Walk& walk, const ModelConfig& c, LayerWeights& w) {
    walk.of("router");
    walk.matrix("ffn.gate.weight", w.gate, c.experts, c.hidden);
    walk.vector("ffn.gate.bias", w.gate_bias, c.experts);
    walk.of("router bias for images", Home::unused);
    walk.add("ffn.gate.bias_vl", Storage::f32, {static_cast<uint64_t>(c.experts)}, {});
    walk.of("shared experts");
    walk.matrix("ffn.shared_experts.w1", w.shared_w1, c.moe_hidden, c.hidden);
    walk.matrix("ffn.shared_experts.w2", w.shared_w2, c.hidden, c.moe_hidden);
    walk.matrix("ffn.shared_experts.w3", w.shared_w3, c.moe_hidden, c.hidden);
}

}  // namespace

std::vector<TensorSpec> describe(const ModelConfig& c, Weights& weights) {
    std::vector<TensorSpec> specs;
    Walk walk(specs);
    weights.layers.assign(c.layers, {});
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        LayerWeights& w = weights.layers[layer];
        walk.in(cat("layers.", layer, "."));
        walk.of("hyper-connections");
        walk_hyper(walk, c, "hc_attn", w.hc_attn);
        walk_hyper(walk, c, "hc_ffn", w.hc_ffn);
        walk.of("norms");
        walk.vector("attn_norm.weight", w.attn_norm, c.hidden);
        walk.vector("ffn_norm.weight", w.ffn_norm, c.hidden);
        walk_attention(walk, c, layer, w);
        for (size_t which = 0; which < c.engram_layers.size(); ++which) {
            if (c.engram_layers[which] == layer) walk_engram(walk, c, which, w);
        }
        walk_ffn(walk, c, w);
    }
    walk.in("");
    walk.of("norms").vector("norm.weight", weights.norm, c.hidden);
    walk.of("head").matrix("head.weight", weights.head, c.vocab, c.hidden);
    walk.of("embedding", Home::embedding)
        .matrix("embed.weight", weights.embedding, c.vocab, c.hidden);
    return specs;
}

std::string expert_name(ExpertKey key, ExpertPart part) {
    static constexpr const char* suffix[expert_parts] = {"w1.weight", "w2.weight", "w3.weight",
                                                         "w1.scale",  "w2.scale",  "w3.scale"};
    return cat("layers.", key.layer, ".ffn.experts.", key.expert, ".", suffix[part]);
}

}  // namespace sluice::deepseek_v41
