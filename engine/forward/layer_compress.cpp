// Compressor (section 3.6): the latents of the groups this chunk completes, as compressed rows and
// as index keys.
#include "engine/forward/forward.h"

namespace sluice {

namespace {

// Latents of `groups` groups into ws.latent, normed.
void pool(Pass& pass, int32_t layer, int32_t groups) {
    const ModelConfig& c = pass.rt.config;
    const CompressorWeights& w = *pass.rt.weights.layers[layer].compressor;
    const LayerState& state = pass.state.layer(layer);
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    if (c.ratios[layer] == 1) {
        backend.run(LinearBf16{ws.latent, nullptr, w.wkv, ws.x, pass.n});
    } else {
        backend.run(LinearBf16{nullptr, ws.pool_kv, w.wkv, ws.x, pass.n});
        backend.run(LinearBf16{nullptr, ws.pool_gate, w.wgate, ws.x, pass.n});
        backend.run(CompressPool{.latent = ws.latent,
                                 .kv = ws.pool_kv,
                                 .gate = ws.pool_gate,
                                 .open_kv = state.open_kv,
                                 .open_gate = state.open_gate,
                                 .n = pass.n,
                                 .dim = c.head_dim,
                                 .ratio = c.ratios[layer],
                                 .open_rows = pass.state.open_rows(layer, pass.position)});
    }
    if (groups > 0) {
        backend.run(RmsNorm{ws.latent, ws.latent, w.norm, groups, c.head_dim, c.norm_eps});
    }
}

}  // namespace

Result<void> compress(Pass& pass, int32_t layer) {
    const ModelConfig& c = pass.rt.config;
    const IndexerWeights& indexer = *pass.rt.weights.layers[layer].indexer;
    const LayerState& state = pass.state.layer(layer);
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const int32_t first = pass.state.rows(layer, pass.position);
    const int32_t groups = pass.state.rows(layer, pass.position + pass.n) - first;
    pool(pass, layer, groups);
    if (groups == 0) return {};
    pass.state.published = layer;
    const uint64_t dim = c.head_dim, row = first;
    if (auto r = probe(pass, layer, "latent", ws.latent, groups * dim); !r) return r;

    // A group stands at its first token.
    RopeRequant place{.x = nullptr,
                      .n = groups,
                      .heads = 1,
                      .dim = c.index_dim,
                      .rope = pass.yarn,
                      .position = first * c.ratios[layer],
                      .stride = c.ratios[layer],
                      .inverse = false,
                      .requant = Requant::fp4_32};
    bf16* keys = state.keys + row * c.index_dim;
    backend.run(LinearBf16{keys, nullptr, indexer.wk, ws.latent, groups});
    backend.run(RmsNorm{keys, keys, indexer.k_norm, groups, c.index_dim, c.norm_eps});
    place.x = keys;
    backend.run(place);

    bf16* rows = state.compressed + row * dim;
    backend.copy(rows, ws.latent, groups * dim * sizeof(bf16));
    place.x = rows;
    place.dim = c.head_dim;
    place.requant = Requant::fp4_16;
    backend.run(place);
    return {};
}

}  // namespace sluice
