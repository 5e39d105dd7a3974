#include "engine/model/deepseek/tensor_parts.h"

namespace sluice::deepseek {

void walk_hyper(TensorWalk& walk, const ModelConfig& c, const std::string& name, HyperWeights& w) {
    const int32_t rows = (2 + c.hc) * c.hc;
    walk.matrix(name + "_fn", w.fn, rows, c.hc * c.hidden);
    walk.vector(name + "_base", w.base, rows);
    walk.vector(name + "_scale", w.scale, 3);
}

void walk_layer(TensorWalk& walk, const ModelConfig& c, LayerWeights& w) {
    walk.of("hyper-connections");
    walk_hyper(walk, c, "hc_attn", w.hc_attn);
    walk_hyper(walk, c, "hc_ffn", w.hc_ffn);
    walk.of("norms");
    walk.vector("attn_norm.weight", w.attn_norm, c.hidden);
    walk.vector("ffn_norm.weight", w.ffn_norm, c.hidden);
    walk.of("attention");
    walk.vector("attn.attn_sink", w.sink, c.heads);
    walk.matrix("attn.wq_a", w.wq_a, c.q_rank, c.hidden);
    walk.vector("attn.q_norm.weight", w.q_norm, c.q_rank);
    walk.matrix("attn.wq_b", w.wq_b, c.heads * c.head_dim, c.q_rank);
    walk.matrix("attn.wkv", w.wkv, c.head_dim, c.hidden);
    walk.vector("attn.kv_norm.weight", w.kv_norm, c.head_dim);
    walk.matrix("attn.wo_a", w.wo_a, c.o_groups * c.o_rank, c.heads * c.head_dim / c.o_groups);
    walk.matrix("attn.wo_b", w.wo_b, c.hidden, c.o_groups * c.o_rank);
}

void walk_index_queries(TensorWalk& walk, const ModelConfig& c, IndexerWeights& w) {
    walk.of("indexer");
    walk.matrix("attn.indexer.wq_b", w.wq_b, c.index_heads * c.index_dim, c.q_rank);
    walk.matrix("attn.indexer.weights_proj.weight", w.weights_proj, c.index_heads, c.hidden);
}

void walk_experts(TensorWalk& walk, const ModelConfig& c, LayerWeights& w) {
    walk.of("router");
    walk.matrix("ffn.gate.weight", w.gate, c.experts, c.hidden);
    walk.of("shared experts");
    walk.matrix("ffn.shared_experts.w1", w.shared_w1, c.moe_hidden, c.hidden);
    walk.matrix("ffn.shared_experts.w2", w.shared_w2, c.hidden, c.moe_hidden);
    walk.matrix("ffn.shared_experts.w3", w.shared_w3, c.moe_hidden, c.hidden);
}

void walk_ends(TensorWalk& walk, const ModelConfig& c, Weights& w) {
    walk.in("");
    walk.of("norms").vector("norm.weight", w.norm, c.hidden);
    walk.of("head").matrix("head.weight", w.head, c.vocab, c.hidden);
    walk.last().head = true;
    walk.of("embedding", Home::host).matrix("embed.weight", w.embedding, c.vocab, c.hidden);
}

std::string expert_name(ExpertKey key, ExpertPart part) {
    static constexpr const char* suffix[expert_parts] = {"w1.weight", "w2.weight", "w3.weight",
                                                         "w1.scale",  "w2.scale",  "w3.scale"};
    return cat("layers.", key.layer, ".ffn.experts.", key.expert, ".", suffix[part]);
}

}  // namespace sluice::deepseek
