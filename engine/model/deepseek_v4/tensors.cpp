// Source of deepseek_v4.h: describe(), check_checkpoint() and check_weights() (deepseek-v4.md
// sections 2 and 5).
#include <algorithm>
#include <charconv>
#include <vector>

#include "engine/model/deepseek/tensor_parts.h"
#include "engine/model/deepseek_v4/deepseek_v4.h"

namespace sluice::deepseek_v4 {

namespace {

constexpr std::string_view draft_prefix = "mtp.";

void walk_compressor(TensorWalk& walk, const ModelConfig& c, const LayerRows& rows,
                     const std::string& name, int32_t dim, CompressorWeights& w) {
    const int32_t columns = rows.overlap ? 2 * dim : dim;
    walk.of("compressor");
    walk.matrix(name + ".ape", w.place, rows.ratio, columns);
    walk.matrix(name + ".wkv.weight", w.wkv, columns, c.hidden);
    walk.matrix(name + ".wgate.weight", w.wgate, columns, c.hidden);
    walk.vector(name + ".norm.weight", w.norm, dim);
}

void walk_rows(TensorWalk& walk, const ModelConfig& c, int32_t layer, LayerWeights& w) {
    if (!c.owns_rows(layer)) return;
    const LayerRows& rows = c.rows[layer];
    walk_compressor(walk, c, rows, "attn.compressor", c.head_dim, w.compressor.emplace());
    if (!c.has_indexer(layer)) return;
    IndexerWeights& x = w.indexer.emplace();
    deepseek::walk_index_queries(walk, c, x);
    walk_compressor(walk, c, rows, "attn.indexer.compressor", c.index_dim, x.compressor.emplace());
}

void walk_router(TensorWalk& walk, const ModelConfig& c, int32_t layer, LayerWeights& w) {
    if (layer >= c.token_routed_layers) {
        walk.of("router").vector("ffn.gate.bias", w.gate_bias, c.experts);
        return;
    }
    walk.of("experts by token id", Home::host);
    walk.matrix("ffn.gate.tid2eid", w.token_experts, c.vocab, c.top_k);
}

// mtp.3.attn.wq_a.weight is of stage 3; -1: of none.
int32_t stage_of(std::string_view name) {
    if (!name.starts_with(draft_prefix)) return -1;
    const char* end = name.data() + name.size();
    int32_t stage = -1;
    const auto parsed = std::from_chars(name.data() + draft_prefix.size(), end, stage);
    return parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '.' ? stage : -1;
}

struct DraftHead {
    int32_t stages = 0;
    bool dspark = false, mtp = false;
};

DraftHead find_draft_head(const Checkpoint& checkpoint) {
    DraftHead head;
    for (const Tensor& tensor : checkpoint.tensors()) {
        const int32_t stage = stage_of(tensor.name);
        if (stage < 0) continue;
        head.stages = std::max(head.stages, stage + 1);
        head.dspark |= tensor.name.find(".markov_head.") != std::string::npos;
        head.mtp |= tensor.name.find(".e_proj.") != std::string::npos;
    }
    return head;
}

}  // namespace

std::string draft_head_kind(const Checkpoint& checkpoint) {
    const DraftHead head = find_draft_head(checkpoint);
    if (head.dspark == head.mtp) return "";
    if (head.mtp) return "an MTP block";
    return cat(head.stages, head.stages == 1 ? " DSpark stage" : " DSpark stages");
}

std::vector<TensorSpec> describe(const ModelConfig& c, Weights& weights) {
    std::vector<TensorSpec> specs;
    TensorWalk walk(specs, c.arithmetic.weight_tile);
    weights.layers.assign(c.layers, {});
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        LayerWeights& w = weights.layers[layer];
        walk.in(cat("layers.", layer, "."));
        deepseek::walk_layer(walk, c, w);
        walk_rows(walk, c, layer, w);
        deepseek::walk_experts(walk, c, w);
        walk_router(walk, c, layer, w);
    }
    deepseek::walk_ends(walk, c, weights);
    HyperWeights& head = weights.hc_head.emplace();
    walk.of("hyper-connections");
    walk.matrix("hc_head_fn", head.fn, c.hc, c.hc * c.hidden);
    walk.vector("hc_head_base", head.base, c.hc);
    walk.vector("hc_head_scale", head.scale, 1);
    return specs;
}

Result<void> check_checkpoint(const Checkpoint& checkpoint, const ModelConfig& c) {
    const auto [stages, dspark, mtp] = find_draft_head(checkpoint);
    const std::string folder = printable(checkpoint.folder().string());
    if (stages != c.draft_stages) {
        return fail(Code::corrupt,
                    cat(folder, ": compress_ratios of config.json has entries for ", c.draft_stages,
                        " draft stages after the ", c.layers,
                        " layers, but the files hold mtp.* tensors of ", stages,
                        "; they are of different releases: ", checkpoint.cure({"config.json"})));
    }
    if (stages > 0 && dspark == mtp) {
        return fail(Code::unsupported, cat(folder, ": the draft head (mtp.*) has ",
                                           mtp ? "both mtp.*.e_proj and mtp.*.markov_head"
                                               : "neither mtp.*.e_proj nor mtp.*.markov_head",
                                           ", so it is neither an MTP block nor DSpark stages"));
    }
    if (mtp && stages != 1) {
        return fail(Code::unsupported, cat(folder, ": the draft head (mtp.*) is an MTP block of ",
                                           stages, " stages; releases have one"));
    }
    return {};
}

Result<void> check_weights(const Checkpoint& checkpoint, const ModelConfig& c,
                           const Weights& weights) {
    const auto k = static_cast<size_t>(c.top_k);
    std::vector<int32_t> seen(static_cast<size_t>(c.experts));
    for (int32_t layer = 0; layer < c.token_routed_layers; ++layer) {
        const std::string name = cat("layers.", layer, ".ffn.gate.tid2eid");
        const auto bad = [&](int64_t expert, const char* why, int32_t token) {
            const auto& path = checkpoint.shards()[checkpoint.find(name)->shard].path();
            return fail(Code::corrupt,
                        cat(printable(path.string()), ": tensor ", name, ": expert ", expert, why,
                            " for token ", token, "; the file is damaged; ",
                            checkpoint.cure({path.filename().string()})));
        };
        std::ranges::fill(seen, -1);
        const int64_t* row = weights.layers[layer].token_experts;
        for (int32_t token = 0; token < c.vocab; ++token, row += k) {
            for (size_t i = 0; i < k; ++i) {
                if (row[i] < 0 || row[i] >= c.experts) {
                    return bad(row[i], " does not exist, listed", token);
                }
                int32_t& last = seen[static_cast<size_t>(row[i])];
                if (last == token) return bad(row[i], " is listed twice", token);
                last = token;
            }
        }
    }
    return {};
}

}  // namespace sluice::deepseek_v4
