#include "engine/forward/layer_compress.h"

namespace sluice {

namespace {

// Latents of the completed groups, normed.
void pool(const CompressInputs& in, const LayerState& own, const CompressScratch& scratch,
          Backend& device, int32_t groups) {
    const ModelConfig& c = in.config;
    const CompressorWeights& w = in.weights;
    const int32_t ratio = c.ratios[in.layer], n = in.at.n;
    if (ratio == 1) {
        device.run(LinearBf16{scratch.latent, nullptr, w.wkv, in.x, n});
    } else {
        device.run(LinearBf16{nullptr, scratch.pool_kv, w.wkv, in.x, n});
        device.run(LinearBf16{nullptr, scratch.pool_gate, w.wgate, in.x, n});
        device.run(CompressPool{.latent = scratch.latent,
                                .kv = scratch.pool_kv,
                                .gate = scratch.pool_gate,
                                .open_kv = own.open_kv,
                                .open_gate = own.open_gate,
                                .n = n,
                                .dim = c.head_dim,
                                .ratio = ratio,
                                .open_rows = in.at.first % ratio});
    }
    if (groups > 0) {
        device.run(RmsNorm{scratch.latent, scratch.latent, w.norm, groups, c.head_dim, c.norm_eps});
    }
}

}  // namespace

Result<int32_t> compress(const CompressInputs& in, const LayerState& own,
                         const CompressScratch& scratch, Backend& device, const PassHooks& hooks) {
    const ModelConfig& c = in.config;
    const int32_t ratio = c.ratios[in.layer];
    const int32_t first = in.at.first / ratio;
    const int32_t groups = in.at.end() / ratio - first;
    pool(in, own, scratch, device, groups);
    if (groups == 0) return 0;
    const uint64_t dim = c.head_dim, row = first;
    auto seen = hooks.probe.see(in.layer, "latent", scratch.latent, groups * dim);
    if (!seen) return tl::unexpected(seen.error());

    // A group stands at its first token.
    RopeRequant place{.x = nullptr,
                      .n = groups,
                      .heads = 1,
                      .dim = c.index_dim,
                      .rope = in.rope,
                      .position = first * ratio,
                      .stride = ratio,
                      .inverse = false,
                      .requant = Requant::fp4_32};
    bf16* keys = own.keys + row * c.index_dim;
    device.run(LinearBf16{keys, nullptr, in.indexer.wk, scratch.latent, groups});
    device.run(RmsNorm{keys, keys, in.indexer.k_norm, groups, c.index_dim, c.norm_eps});
    place.x = keys;
    device.run(place);

    bf16* rows = own.compressed + row * dim;
    device.copy(rows, scratch.latent, groups * dim * sizeof(bf16));
    place.x = rows;
    place.dim = c.head_dim;
    place.requant = Requant::fp4_16;
    device.run(place);
    return groups;
}

}  // namespace sluice
