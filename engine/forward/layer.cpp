#include "engine/forward/layer.h"

#include "engine/forward/layer_attention.h"
#include "engine/forward/layer_compress.h"
#include "engine/forward/layer_moe.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

namespace {

const LayerWeights& weights_of(const Pass& pass, int32_t layer) {
    return pass.runtime.weights.layers[layer];
}

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

Result<void> keep_open(Pass& pass, int32_t layer) {
    const CompressScratch& pooled = pass.workspace.compress;
    return keep_checkpoints(pass, layer, [&](Checkpoints& checkpoints) {
        return checkpoints.copy_open(pass.runtime.config, layer, pass.at, pooled.pool_kv,
                                     pooled.pool_gate, *pass.runtime.backend);
    });
}

// Only in a layer that owns compressed rows.
Result<void> run_compressor(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    const LayerWeights& w = weights_of(pass, layer);
    const CompressInputs in{
        .config = rt.config,
        .weights = *w.compressor,
        .indexer = *w.indexer,
        .layer = layer,
        .at = pass.at,
        .rope = pass.yarn,
        .x = pass.streams.io().x,
    };
    auto groups =
        compress(in, pass.state.layer(layer), pass.workspace.compress, *rt.backend, pass.hooks);
    if (!groups) return tl::unexpected(groups.error());
    if (*groups > 0) pass.state.published = layer;
    if (rt.config.ratios[layer] == 1) return {};
    return keep_open(pass, layer);
}

Result<void> run_indexer(Pass& pass, int32_t layer) {
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

Result<void> run_attention(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    const ModelConfig& c = rt.config;
    const LayerWeights& w = weights_of(pass, layer);
    const AttentionScratch& scratch = pass.workspace.attention;
    const SublayerIo& io = pass.streams.io();
    const int32_t source = c.kv_source_of(layer);
    const AttentionInputs in{
        .config = c,
        .weights = w,
        .at = pass.at,
        .rope = c.ratios[layer] == 0 ? pass.plain : pass.yarn,
        .x = io.xq,
    };
    const AttentionState state{
        .window = pass.state.layer(layer).window,
        .compressed = source < 0 ? nullptr : pass.state.layer(source).compressed,
    };
    project(in, state, scratch, *rt.backend);
    if (auto r = keep_window(pass, layer); !r) return r;
    const uint64_t n = pass.at.n;
    if (auto r = pass.hooks.probe.see(layer, "qr", scratch.qr, n * c.q_rank); !r) return r;
    if (w.compressor) {
        if (auto r = run_compressor(pass, layer); !r) return r;
    }
    if (w.indexer) {
        if (auto r = run_indexer(pass, layer); !r) return r;
    }
    return attend(in, state, pass.selected, scratch, io.y, *rt.backend, pass.hooks);
}

Result<ExpertOutput> run_experts(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    const bool last = layer + 1 == rt.config.layers;
    const SublayerIo& io = pass.streams.io();
    const ExpertsInputs in{.config = rt.config,
                           .weights = weights_of(pass, layer),
                           .next = last ? nullptr : &weights_of(pass, layer + 1),
                           .layer = layer,
                           .at = pass.at,
                           .x = io.x,
                           .xq = io.xq,
                           .collapsed = io.collapsed,
                           .map = *rt.experts,
                           .reads = rt.ring->stats(),
                           .order = pass.order,
                           .limits = rt.prefetch_limits()};
    return experts(in, pass.workspace.experts, rt.tiers, pass.routes, *rt.backend, pass.hooks);
}

Result<void> run_engram(Pass& pass, int32_t layer) {
    Runtime& rt = pass.runtime;
    const EngramInputs in{rt.config, *weights_of(pass, layer).engram, layer};
    return engram(in, rt.engram, pass.rows, pass.next ? &pass.next->rows : nullptr,
                  pass.workspace.engram, pass.streams.h(), *rt.backend, pass.hooks);
}

Result<void> run_sublayers(Pass& pass, int32_t layer) {
    const spans::Group group("layer", layer);
    const spans::Leaf leaf("attention", layer);
    const ModelConfig& c = pass.runtime.config;
    const LayerWeights& w = weights_of(pass, layer);
    const TensorProbe& probe = pass.hooks.probe;
    Streams& streams = pass.streams;
    const SublayerIo& io = streams.io();
    const uint64_t n = pass.at.n, dim = c.hidden, rows = n * c.hc;

    if (w.engram) {
        streams.settle();
        if (auto r = run_engram(pass, layer); !r) return r;
    }
    auto replaced = probe.replace(c, layer, pass.at.n, streams.h(), streams.pre());
    if (!replaced) return replaced;

    // For one token nothing from here to the router depends on experts, which may be missing: a
    // device may record the launches and repeat them. A checkpoint is downloaded in between.
    if (n == 1 && !reaches_checkpoint(pass)) pass.runtime.backend->begin_repeat(layer);
    streams.enter(w.hc_attn, w.attn_norm);
    if (auto r = probe.see(layer, "attn_in", io.x, n * dim); !r) return r;
    if (auto r = run_attention(pass, layer); !r) return r;
    if (auto r = probe.see(layer, "attn_out", io.y, n * dim); !r) return r;
    streams.leave();
    if (probe) streams.settle();
    if (auto r = pass.hooks.go_on(); !r) return r;

    streams.enter(w.hc_ffn, w.ffn_norm);
    if (auto r = probe.see(layer, "ffn_in", io.x, n * dim); !r) return r;
    auto parts = run_experts(pass, layer);
    if (!parts) return tl::unexpected(parts.error());
    streams.leave(*parts);
    if (probe) streams.settle();
    if (auto r = probe.see(layer, "ffn_out", io.y, n * dim); !r) return r;
    if (auto r = probe.see(layer, "h", streams.h(), rows * dim); !r) return r;
    return probe.see(layer, "pre", streams.pre(), rows);
}

}  // namespace

Result<void> run_layer(Pass& pass, int32_t layer) {
    if (auto go = pass.hooks.go_on(); !go) return go;
    if (auto done = run_sublayers(pass, layer); !done) {
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
