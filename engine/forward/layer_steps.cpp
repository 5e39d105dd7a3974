#include "engine/forward/layer_steps.h"

#include "engine/forward/layer_attention.h"
#include "engine/forward/layer_compress.h"
#include "engine/forward/layer_moe.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

namespace {

bool reaches_checkpoint(const Pass& pass) {
    return pass.checkpoints && pass.checkpoints->within(pass.at);
}

// What this pass leaves at checkpoints, before later tokens overwrite it. `copy` downloads it.
Result<void> keep_checkpoints(Pass& pass, int32_t layer, auto copy) {
    if (!reaches_checkpoint(pass)) return {};
    const spans::Leaf leaf("checkpoint", layer);
    auto read = keep_reading(pass.runtime.tiers, *pass.runtime.backend, pass.hooks);
    return read ? copy(*pass.checkpoints) : read;
}

Result<void> keep_window(Pass& pass, int32_t layer) {
    return keep_checkpoints(pass, layer, [&](Checkpoints& checkpoints) {
        return checkpoints.copy_window(pass.runtime.config, pass.state.layer(layer), layer, pass.at,
                                       pass.workspace.attention.kv, *pass.runtime.backend);
    });
}

// Pools the chunk's tokens; the latents of completed groups are in the scratch afterwards.
Result<void> run_pool(Pass& pass, const PoolInputs& in, const OpenPool& open, bool index) {
    Backend& device = *pass.runtime.backend;
    const CompressScratch& scratch = pass.workspace.compress;
    project_pool(in, scratch, device);
    if (in.ratio() > 1) {
        auto kept = keep_checkpoints(pass, in.layer, [&](Checkpoints& checkpoints) {
            return checkpoints.copy_open(
                {in.layer, in.config.rows[in.layer], in.at, open, scratch.pool_kv,
                 scratch.pool_gate, in.weights.place, index},
                device);
        });
        if (!kept) return kept;
    }
    return pool_groups(in, open, scratch, device, pass.hooks);
}

PoolInputs pool_inputs(const Pass& pass, int32_t layer, const CompressorWeights& weights,
                       int32_t dim, const char* name) {
    return {.config = pass.runtime.config,
            .weights = weights,
            .layer = layer,
            .dim = dim,
            .at = pass.at,
            .x = pass.streams.io().x,
            .name = name};
}

struct AttentionParts {
    AttentionInputs in;
    AttentionState state;
};

AttentionParts attention_parts(Pass& pass, int32_t layer) {
    const ModelConfig& c = pass.runtime.config;
    const LayerRows& rows = c.rows[layer];
    return {
        .in = {.config = c,
               .weights = weights_of(pass, layer),
               .at = pass.at,
               .rope = rows.ratio == 0 ? pass.plain : pass.yarn,
               .x = pass.streams.io().xq},
        .state = {.window = pass.state.layer(layer).window,
                  .compressed = rows.owner < 0 ? nullptr : pass.state.layer(rows.owner).compressed,
                  .all_rows_ratio = rows.chooser < 0 ? rows.ratio : 0}};
}

uint64_t row_values(const Pass& pass) {
    return static_cast<uint64_t>(pass.at.n) * static_cast<uint64_t>(pass.runtime.config.hidden);
}

}  // namespace

const LayerWeights& weights_of(const Pass& pass, int32_t layer) {
    return pass.runtime.weights.layers[layer];
}

Result<void> run_engram(Pass& pass, int32_t layer) {
    const LayerWeights& w = weights_of(pass, layer);
    if (!w.engram) return {};
    Runtime& rt = pass.runtime;
    pass.streams.settle();
    const EngramInputs in{rt.config, *w.engram, layer};
    return engram(in, rt.engram, pass.rows, pass.next ? &pass.next->rows : nullptr,
                  pass.workspace.engram, pass.streams.h(), *rt.backend, pass.hooks);
}

Result<void> begin_layer(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    Streams& streams = pass.streams;
    auto replaced =
        pass.hooks.probe.replace(rt.config, layer, pass.at.n, streams.h(), streams.pre());
    if (!replaced) return replaced;
    bring_routes(pass.known(), layer, pass.workspace.experts, *rt.backend);
    // For one token nothing from here to the router depends on experts, which may be missing: a
    // device may record the launches and repeat them. A checkpoint is downloaded in between.
    if (pass.at.n == 1 && !reaches_checkpoint(pass)) rt.backend->begin_repeat(layer);
    return {};
}

Result<void> enter_attention(Pass& pass, int32_t layer) {
    const LayerWeights& w = weights_of(pass, layer);
    pass.streams.enter(w.hc_attn, w.attn_norm);
    return pass.hooks.probe.see(layer, "attn_in", pass.streams.io().x, row_values(pass));
}

Result<void> project_keys(Pass& pass, int32_t layer) {
    const AttentionParts parts = attention_parts(pass, layer);
    const AttentionScratch& scratch = pass.workspace.attention;
    project(parts.in, parts.state, scratch, *pass.runtime.backend);
    if (auto r = keep_window(pass, layer); !r) return r;
    const auto n = static_cast<uint64_t>(pass.at.n);
    return pass.hooks.probe.see(layer, "qr", scratch.qr, n * pass.runtime.config.q_rank);
}

Result<void> compress_rows(Pass& pass, int32_t layer, bool latent_keys) {
    Runtime& rt = pass.runtime;
    const LayerWeights& w = weights_of(pass, layer);
    const LayerState& own = pass.state.layer(layer);
    const CompressScratch& scratch = pass.workspace.compress;
    const PoolInputs in =
        pool_inputs(pass, layer, *w.compressor, rt.config.head_dim, "latent");
    if (auto r = run_pool(pass, in, own.open, false); !r) return r;
    if (latent_keys) store_latent_keys(in, *w.indexer, pass.yarn, own, scratch, *rt.backend);
    store_rows(in, pass.yarn, own, scratch, *rt.backend);
    if (in.groups() > 0) pass.state.published = layer;
    return {};
}

Result<void> compress_keys(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    const LayerState& own = pass.state.layer(layer);
    const PoolInputs in = pool_inputs(pass, layer, *weights_of(pass, layer).indexer->compressor,
                                      rt.config.index_dim, "index_latent");
    if (auto r = run_pool(pass, in, own.index_open, true); !r) return r;
    store_keys(in, pass.yarn, own, pass.workspace.compress, *rt.backend);
    return {};
}

Result<void> choose_rows(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    const IndexKeyRows keys =
        index_keys(rt.config, pass.state, rt.options.index_keys, layer, pass.at.end());
    const IndexInputs in{
        .config = rt.config,
        .weights = *weights_of(pass, layer).indexer,
        .layer = layer,
        .at = pass.at,
        .rope = pass.yarn,
        .x = pass.streams.io().x,
        .query_latents = pass.workspace.attention.qrq,
        .keys = keys,
    };
    return select_rows(in, pass.workspace.index, pass.selected, *rt.backend, pass.hooks);
}

Result<void> attend_keys(Pass& pass, int32_t layer) {
    const AttentionParts parts = attention_parts(pass, layer);
    return attend(parts.in, parts.state, pass.selected, pass.workspace.attention,
                  pass.streams.io().y, *pass.runtime.backend, pass.hooks);
}

Result<void> leave_attention(Pass& pass, int32_t layer) {
    const TensorProbe& probe = pass.hooks.probe;
    Streams& streams = pass.streams;
    if (auto r = probe.see(layer, "attn_out", streams.io().y, row_values(pass)); !r) return r;
    streams.leave();
    if (probe) streams.settle();
    return pass.hooks.go_on();
}

Result<void> run_experts(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    const ModelConfig& c = rt.config;
    const LayerWeights& w = weights_of(pass, layer);
    const TensorProbe& probe = pass.hooks.probe;
    Streams& streams = pass.streams;
    const SublayerIo& io = streams.io();
    const TokenRoutes known = pass.known();
    streams.enter(w.hc_ffn, w.ffn_norm);
    if (auto r = probe.see(layer, "ffn_in", io.x, row_values(pass)); !r) return r;
    const ExpertsInputs in{.config = c,
                           .weights = w,
                           .next = layer + 1 == c.layers ? nullptr : &weights_of(pass, layer + 1),
                           .layer = layer,
                           .at = pass.at,
                           .known = known,
                           .x = io.x,
                           .xq = io.xq,
                           .collapsed = io.collapsed,
                           .map = *rt.experts,
                           .reads = rt.ring->stats(),
                           .order = pass.order,
                           .limits = rt.prefetch_limits()};
    auto parts =
        experts(in, pass.workspace.experts, rt.tiers, pass.routes, *rt.backend, pass.hooks);
    if (!parts) return tl::unexpected(parts.error());
    streams.leave(*parts);
    if (probe) streams.settle();
    const auto streams_of_all = static_cast<uint64_t>(pass.at.n) * static_cast<uint64_t>(c.hc);
    if (auto r = probe.see(layer, "ffn_out", io.y, row_values(pass)); !r) return r;
    if (auto r = probe.see(layer, "h", streams.h(), streams_of_all * c.hidden); !r) return r;
    if (c.arithmetic.own_mix) return {};
    return probe.see(layer, "pre", streams.pre(), streams_of_all);
}

Result<void> run_layer(Pass& pass, int32_t layer) {
    if (auto go = pass.hooks.go_on(); !go) return go;
    Result<void> done;
    {
        const spans::Group group("layer", layer);
        const spans::Leaf leaf("attention", layer);
        done = pass.runtime.model->run_layer(pass, layer);
    }
    if (!done) {
        if (done.error().code == Code::interrupted) return done;
        // A failed read of an expert names its layer already.
        const std::string here = cat("layer ", layer);
        const std::string& said = done.error().message;
        if (said.starts_with(here + ",") || said.starts_with(here + ":")) return done;
        return within(here, done.error());
    }
    if (pass.hooks.progress) pass.hooks.progress(layer + 1);
    return {};
}

}  // namespace sluice
