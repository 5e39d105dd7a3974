// Source of deepseek_v41.h: describe() (deepseek-v41.md section 2).
#include "engine/model/deepseek/tensor_parts.h"
#include "engine/model/deepseek_v41/deepseek_v41.h"

namespace sluice::deepseek_v41 {

namespace {

constexpr uint64_t table_scale = 32;  // values of an Engram row per scale

void walk_compressor(TensorWalk& walk, const ModelConfig& c, int32_t layer, LayerWeights& w) {
    const bool owner = c.owns_rows(layer);
    if (owner) {
        walk.of("compressor");
        CompressorWeights& p = w.compressor.emplace();
        walk.matrix("attn.compressor.wkv.weight", p.wkv, c.head_dim, c.hidden);
        if (c.rows[layer].ratio > 1) {
            walk.matrix("attn.compressor.wgate.weight", p.wgate, c.head_dim, c.hidden);
        }
        walk.vector("attn.compressor.norm.weight", p.norm, c.head_dim);
    }
    if (!c.has_indexer(layer)) return;
    IndexerWeights& x = w.indexer.emplace();
    deepseek::walk_index_queries(walk, c, x);
    if (!owner) return;
    walk.matrix("attn.indexer.wk.weight", x.wk, c.index_dim, c.head_dim);
    walk.vector("attn.indexer.k_norm.weight", x.k_norm, c.index_dim);
}

void walk_engram(TensorWalk& walk, const ModelConfig& c, size_t which, LayerWeights& w) {
    EngramWeights& e = w.engram.emplace();
    walk.of("Engram projections");
    walk.matrix("engram.wkv", e.wkv, (c.hc + 1) * c.hidden, c.engram_columns() * c.engram_dim);
    walk.matrix("engram.q_weight", e.q_weight, c.hc, c.hidden);
    walk.matrix("engram.k_weight", e.k_weight, c.hc, c.hidden);
    walk.of("Engram tables", Home::table);
    const uint64_t rows = static_cast<uint64_t>(c.engram_rows[which]);
    const uint64_t dim = static_cast<uint64_t>(c.engram_dim);
    walk.add("engram.embed.weight", Storage::fp8, {rows, dim}, {});
    walk.add("engram.embed.scale", Storage::e8m0, {rows, dim / table_scale}, {});
}

void walk_router_bias(TensorWalk& walk, const ModelConfig& c, LayerWeights& w) {
    walk.of("router").vector("ffn.gate.bias", w.gate_bias, c.experts);
    walk.of("router bias for images", Home::unused);
    walk.add("ffn.gate.bias_vl", Storage::f32, {static_cast<uint64_t>(c.experts)}, {});
}

}  // namespace

std::vector<TensorSpec> describe(const ModelConfig& c, Weights& weights) {
    std::vector<TensorSpec> specs;
    TensorWalk walk(specs, c.arithmetic.weight_tile);
    weights.layers.assign(c.layers, {});
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        LayerWeights& w = weights.layers[layer];
        walk.in(cat("layers.", layer, "."));
        deepseek::walk_layer(walk, c, w);
        walk_compressor(walk, c, layer, w);
        for (size_t which = 0; which < c.engram_layers.size(); ++which) {
            if (c.engram_layers[which] == layer) walk_engram(walk, c, which, w);
        }
        deepseek::walk_experts(walk, c, w);
        walk_router_bias(walk, c, w);
    }
    deepseek::walk_ends(walk, c, weights);
    return specs;
}

}  // namespace sluice::deepseek_v41
