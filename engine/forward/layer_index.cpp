// Indexer (section 3.7): which compressed rows each query attends to. The list stays published for
// the layers that follow.
#include <algorithm>
#include <cmath>

#include "engine/forward/forward.h"

namespace sluice {

namespace {

struct Keys {
    const bf16* data;
    int32_t rows;
};

// A layer's own keys, or, as the official program does on a decode step that leaves the group open,
// those of whoever published last (IndexKeys::reference).
Keys keys_of(Pass& pass, int32_t layer) {
    const ModelConfig& c = pass.rt.config;
    const int32_t end = pass.position + pass.n;
    int32_t source = c.kv_source_of(layer);
    int32_t rows = end / c.ratios[layer];
    if (pass.rt.options.index_keys == IndexKeys::reference && pass.state.published != source) {
        source = pass.state.published;
        rows = source < 0 ? 0 : std::min(rows, pass.state.rows(source, end));
    }
    return {source < 0 ? nullptr : pass.state.layer(source).keys, rows};
}

void select(Pass& pass, int32_t layer, const Keys& keys, int32_t first, int32_t n) {
    const ModelConfig& c = pass.rt.config;
    const IndexerWeights& w = *pass.rt.weights.layers[layer].indexer;
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const uint64_t at = first;
    const QuantRows qrq{ws.qrq.codes + at * c.q_rank, ws.qrq.scales + at * (c.q_rank / 32)};
    backend.run(LinearFp8{ws.index_q, w.wq_b, qrq, n});
    backend.run(RopeRequant{.x = ws.index_q,
                            .n = n,
                            .heads = c.index_heads,
                            .dim = c.index_dim,
                            .rope = pass.yarn,
                            .position = pass.position + first,
                            .stride = 1,
                            .inverse = false,
                            .requant = Requant::fp4_32});
    backend.run(LinearBf16{ws.index_w, nullptr, w.weights_proj, ws.x + at * c.hidden, n});
    const double scale =
        std::pow(double(c.index_dim), -0.5) * std::pow(double(c.index_heads), -0.5);
    backend.run(ScaleBf16{ws.index_w, n * c.index_heads, static_cast<float>(scale)});

    const Candidates mode = c.candidate_source < 0 || layer < c.candidate_source ? Candidates::none
                            : layer == c.candidate_source ? Candidates::publish
                                                          : Candidates::restrict;
    backend.run(
        IndexTopk{.topk = ws.topk + at * pass.topk_width,
                  .candidates = mode == Candidates::none ? nullptr : ws.candidates + at * ws.blocks,
                  .q = ws.index_q,
                  .w = ws.index_w,
                  .keys = keys.data,
                  .scratch = ws.index_scratch,
                  .n = n,
                  .heads = c.index_heads,
                  .dim = c.index_dim,
                  .k = pass.topk_width,
                  .position = pass.position + first,
                  .ratio = c.ratios[layer],
                  .rows = keys.rows,
                  .block = c.candidate_block,
                  .keep = c.candidate_blocks,
                  .blocks_max = ws.blocks,
                  .mode = mode});
}

}  // namespace

Result<void> index_rows(Pass& pass, int32_t layer) {
    const ModelConfig& c = pass.rt.config;
    const Keys keys = keys_of(pass, layer);
    pass.topk_width = std::min(c.index_topk, keys.rows);
    if (pass.topk_width == 0) return {};
    const int32_t slice = pass.ws.shape.index_slice;
    for (int32_t first = 0; first < pass.n; first += slice) {
        select(pass, layer, keys, first, std::min(pass.n - first, slice));
        if (auto r = pass.go_on(); !r) return r;
    }
    const uint64_t n = pass.n;
    if (layer == c.candidate_source) {
        if (auto r = probe_candidates(pass, layer, keys.rows); !r) return r;
    }
    return probe(pass, layer, "topk_rows", pass.ws.topk, n * pass.topk_width);
}

}  // namespace sluice
