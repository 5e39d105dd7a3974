#include "engine/forward/layer_index.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sluice {

namespace {

Candidates candidate_mode(const ModelConfig& c, int32_t layer) {
    if (c.candidate_source < 0 || layer < c.candidate_source) return Candidates::none;
    return layer == c.candidate_source ? Candidates::publish : Candidates::restrict;
}

// Queries first .. first + n - 1 of the chunk.
void select_slice(const IndexInputs& in, const IndexScratch& scratch, const SelectedRows& published,
                  Backend& device, int32_t first, int32_t n, float* scores) {
    const ModelConfig& c = in.config;
    const IndexerWeights& w = in.weights;
    const uint64_t at = first;
    const QuantRows latents{in.query_latents.codes + at * c.q_rank,
                            in.query_latents.scales + at * (c.q_rank / 32)};
    device.run(LinearFp8{scratch.q, w.wq_b, latents, n});
    RopeRequant place{.x = scratch.q,
                      .n = n,
                      .heads = c.index_heads,
                      .dim = c.index_dim,
                      .rope = in.rope,
                      .position = in.at.first + first,
                      .stride = 1,
                      .inverse = false,
                      .requant = Requant::fp4_32};
    if (c.arithmetic.index_compressor) {  // as the keys: layer_compress.cpp
        place.requant = Requant::none;
        device.run(place);
        device.run(Hadamard{scratch.q, n * c.index_heads, c.index_dim});
        place.rope = {};
        place.requant = Requant::fp4_32;
    }
    device.run(place);
    device.run(LinearBf16{scratch.w, nullptr, w.weights_proj, in.x + at * c.hidden, n});
    const double scale =
        std::pow(double(c.index_dim), -0.5) * std::pow(double(c.index_heads), -0.5);
    device.run(ScaleBf16{scratch.w, n * c.index_heads, static_cast<float>(scale)});

    const Candidates mode = candidate_mode(c, in.layer);
    uint8_t* candidates =
        mode == Candidates::none ? nullptr : published.candidates + at * published.blocks;
    device.run(IndexTopk{.topk = published.topk + at * published.width,
                         .candidates = candidates,
                         .q = scratch.q,
                         .w = scratch.w,
                         .keys = in.keys.data,
                         .scratch = scratch.scores,
                         .n = n,
                         .heads = c.index_heads,
                         .dim = c.index_dim,
                         .k = published.width,
                         .position = in.at.first + first,
                         .ratio = c.rows[in.layer].ratio,
                         .rows = in.keys.rows,
                         .block = c.candidate_block,
                         .keep = c.candidate_blocks,
                         .blocks_max = published.blocks,
                         .mode = mode,
                         .scores = scores});
}

}  // namespace

IndexKeyRows index_keys(const ModelConfig& c, const State& state, IndexKeys mode, int32_t layer,
                        int32_t tokens) {
    int32_t source = c.rows[layer].owner;
    int32_t rows = tokens / c.rows[layer].ratio;
    if (mode == IndexKeys::reference && state.published != source) {
        source = state.published;
        rows = source < 0 ? 0 : std::min(rows, state.rows(source, tokens));
    }
    return {source < 0 ? nullptr : state.layer(source).keys, rows};
}

Result<void> select_rows(const IndexInputs& in, const IndexScratch& scratch,
                         SelectedRows& published, Backend& device, const PassHooks& hooks) {
    const ModelConfig& c = in.config;
    const int32_t n = in.at.n;
    published.width = std::min(c.index_topk, in.keys.rows);
    if (published.width == 0) return {};
    // A probe of a device in host memory sees the scores as well.
    std::vector<float> scores;
    const auto rows = static_cast<uint64_t>(in.keys.rows);
    if (hooks.probe && device.host_memory()) scores.resize(static_cast<uint64_t>(n) * rows);
    for (int32_t first = 0; first < n; first += scratch.slice) {
        float* to = scores.empty() ? nullptr : scores.data() + static_cast<uint64_t>(first) * rows;
        select_slice(in, scratch, published, device, first, std::min(n - first, scratch.slice), to);
        if (auto r = hooks.go_on(); !r) return r;
    }
    if (!scores.empty()) {
        hooks.probe.see_host(in.layer, "index_scores", std::span<const float>(scores));
    }
    if (in.layer == c.candidate_source) {
        auto seen = hooks.probe.see_candidates(in.layer, published.candidates, n, published.blocks,
                                               c.candidate_block, in.keys.rows);
        if (!seen) return seen;
    }
    return hooks.probe.see(in.layer, "topk_rows", published.topk,
                           static_cast<uint64_t>(n) * published.width);
}

}  // namespace sluice
