#include "engine/forward/layer_compress.h"

namespace sluice {

namespace {

// The rotation of the completed groups' rows, from `rows` on.
RopeRequant placed(const PoolInputs& in, RopeTable rope, bf16* rows, int32_t dim) {
    return {.x = rows,
            .n = in.groups(),
            .heads = 1,
            .dim = dim,
            .rope = rope,
            .position = in.first_group() * in.ratio(),
            .stride = in.ratio(),
            .inverse = false,
            .requant = Requant::none};
}

bf16* own_keys(const PoolInputs& in, const LayerState& own) {
    return own.keys + int64_t{in.first_group()} * in.config.index_dim;
}

// Rotates and quantises finished keys.
void finish_keys(const PoolInputs& in, RopeTable rope, bf16* keys, Backend& device) {
    const ModelConfig& c = in.config;
    RopeRequant place = placed(in, rope, keys, c.index_dim);
    if (c.arithmetic.index_compressor) {
        device.run(place);
        device.run(Hadamard{keys, in.groups(), c.index_dim});
        place.rope = {};
    }
    place.requant = Requant::fp4_32;
    device.run(place);
}

}  // namespace

void project_pool(const PoolInputs& in, const CompressScratch& scratch, Backend& device) {
    const CompressorWeights& w = in.weights;
    const int32_t n = in.at.n;
    if (in.ratio() == 1) {
        device.run(LinearBf16{scratch.latent, nullptr, w.wkv, in.x, n});
        return;
    }
    device.run(LinearBf16{nullptr, scratch.pool_kv, w.wkv, in.x, n});
    device.run(LinearBf16{nullptr, scratch.pool_gate, w.wgate, in.x, n});
}

Result<void> pool_groups(const PoolInputs& in, const OpenPool& open, const CompressScratch& scratch,
                         Backend& device, const PassHooks& hooks) {
    const ModelConfig& c = in.config;
    const int32_t groups = in.groups();
    if (in.ratio() > 1) {
        device.run(CompressPool{.latent = scratch.latent,
                                .kv = scratch.pool_kv,
                                .gate = scratch.pool_gate,
                                .open_kv = open.kv,
                                .open_gate = open.gate,
                                .n = in.at.n,
                                .dim = in.dim,
                                .ratio = in.ratio(),
                                .open_rows = in.at.first % in.ratio(),
                                .place = in.weights.place,
                                .overlap = c.rows[in.layer].overlap,
                                .previous = in.first_group() > 0});
    }
    if (groups == 0) return {};
    device.run(
        RmsNorm{scratch.latent, scratch.latent, in.weights.norm, groups, in.dim, c.norm_eps});
    return hooks.probe.see(in.layer, in.name, scratch.latent,
                           static_cast<uint64_t>(groups) * static_cast<uint64_t>(in.dim));
}

void store_rows(const PoolInputs& in, RopeTable rope, const LayerState& own,
                const CompressScratch& scratch, Backend& device) {
    const ModelConfig& c = in.config;
    const int32_t groups = in.groups();
    if (groups == 0) return;
    const int64_t dim = c.head_dim;
    bf16* rows = own.compressed + in.first_group() * dim;
    device.copy(rows, scratch.latent, static_cast<size_t>(groups * dim) * sizeof(bf16));
    RopeRequant place = placed(in, rope, rows, c.head_dim);
    place.requant = c.arithmetic.compressed_rows;
    place.kept = c.keys_kept();
    device.run(place);
}

void store_keys(const PoolInputs& in, RopeTable rope, const LayerState& own,
                const CompressScratch& scratch, Backend& device) {
    const int32_t groups = in.groups();
    if (groups == 0) return;
    bf16* keys = own_keys(in, own);
    const auto bytes = static_cast<size_t>(groups) * static_cast<size_t>(in.dim) * sizeof(bf16);
    device.copy(keys, scratch.latent, bytes);
    finish_keys(in, rope, keys, device);
}

void store_latent_keys(const PoolInputs& in, const IndexerWeights& indexer, RopeTable rope,
                       const LayerState& own, const CompressScratch& scratch, Backend& device) {
    const ModelConfig& c = in.config;
    const int32_t groups = in.groups();
    if (groups == 0) return;
    bf16* keys = own_keys(in, own);
    device.run(LinearBf16{keys, nullptr, indexer.wk, scratch.latent, groups});
    device.run(RmsNorm{keys, keys, indexer.k_norm, groups, c.index_dim, c.norm_eps});
    finish_keys(in, rope, keys, device);
}

}  // namespace sluice
