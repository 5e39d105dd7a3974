#include "engine/forward/chunked_prompt.h"

#include "engine/forward/forward.h"
#include "engine/forward/layer_steps.h"
#include "io/profile.h"

namespace sluice {

namespace {

// One buffer of the workspace, and its place in the store.
struct Piece {
    void* device;
    void* host;
    size_t bytes;
    bool changed, needed;  // by the layer
};

std::vector<Piece> pieces(const Pass& pass, const ChunkStore& store, int32_t layer) {
    const ModelConfig& c = pass.runtime.config;
    const Workspace& ws = pass.workspace;
    const size_t n = pass.at.n, streams = n * c.hc;
    const bool first = layer == 0;
    std::vector<Piece> all = {
        {ws.streams.h, store.h, streams * c.hidden * sizeof(bf16), true, true}};
    // A table begins where the pass needs it; what lies before belongs to the chunk before.
    const auto table = [&](float* device, float* host, const RopeTable& rope) {
        const int64_t skipped = rope.first - (pass.at.first - rope_lookback(c));
        const int64_t skip = skipped * rope.half;
        const auto count = static_cast<size_t>(rope.count) * static_cast<size_t>(rope.half);
        all.push_back({device + skip, host + skip, count * sizeof(float), first, true});
    };
    table(ws.ropes.plain_cos, store.ropes.plain_cos, pass.plain);
    table(ws.ropes.plain_sin, store.ropes.plain_sin, pass.plain);
    table(ws.ropes.yarn_cos, store.ropes.yarn_cos, pass.yarn);
    table(ws.ropes.yarn_sin, store.ropes.yarn_sin, pass.yarn);
    if (!c.arithmetic.own_mix) {
        all.push_back({ws.streams.pre_a, store.pre, streams * sizeof(float), true, true});
    }
    const int32_t chooser = c.rows[layer].chooser;
    if (chooser < 0 || !store.topk) return all;
    const SelectedRows& selected = pass.selected;
    const bool indexes = chooser == layer;
    const size_t width = selected.width;
    if (width > 0) all.push_back({selected.topk, store.topk, n * width * 4, indexes, !indexes});
    if (c.candidate_source < 0) return all;
    const bool publishes = layer == c.candidate_source;
    const bool restricted = indexes && layer > c.candidate_source;
    all.push_back(
        {selected.candidates, store.candidates, n * selected.blocks, publishes, restricted});
    return all;
}

void work_in_store(Workspace& ws, const ChunkStore& store) {
    ws.streams.h = store.h;
    ws.streams.pre_a = store.pre;
    ws.ropes = store.ropes;
    if (store.topk) ws.selected.topk = store.topk;
    if (store.candidates) ws.selected.candidates = store.candidates;
}

Result<void> suspend(Pass& pass, const ChunkStore& store, int32_t layer) {
    Backend& device = *pass.runtime.backend;
    pass.streams.settle_at_home();
    if (device.host_memory()) return {};
    const spans::Leaf leaf("keep chunk", layer);
    auto read = keep_reading(pass.runtime.tiers, device, pass.hooks);
    if (!read) return read;
    for (const Piece& piece : pieces(pass, store, layer)) {
        if (!piece.changed) continue;
        if (auto r = device.download(piece.host, piece.device, piece.bytes); !r) return r;
    }
    return {};
}

void resume(Pass& pass, const ChunkStore& store, int32_t layer) {
    Backend& device = *pass.runtime.backend;
    if (device.host_memory()) return;
    const spans::Leaf leaf("resume chunk", layer);
    for (const Piece& piece : pieces(pass, store, layer)) {
        if (piece.needed) device.upload(piece.device, piece.host, piece.bytes);
    }
}

Result<void> run_layers(std::span<Pass> chunks) {
    Runtime& rt = chunks[0].runtime;
    const ModelConfig& c = rt.config;
    std::vector<ChunkStore> stores;
    for (Pass& pass : chunks) {
        stores.push_back(rt.chunk_store->at(c, pass.at.first - chunks[0].at.first));
        if (rt.backend->host_memory()) work_in_store(pass.workspace, stores.back());
    }
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        const bool last = layer + 1 == c.layers;
        for (size_t i = 0; i < chunks.size(); ++i) {
            Pass& pass = chunks[i];
            if (layer == 0) {
                begin_pass(pass);
            } else {
                resume(pass, stores[i], layer);
            }
            if (auto r = run_layer(pass, layer); !r) return r;
            if (auto r = last ? finish_pass(pass) : suspend(pass, stores[i], layer); !r) return r;
        }
    }
    return {};
}

}  // namespace

Result<void> forward_chunk_group(std::span<Pass> chunks) {
    Pass& first = chunks[0];
    Runtime& rt = first.runtime;
    if (auto r = request_rows(rt.config, rt.engram, first.rows); !r) return r;
    Result<void> done = finish_uploads(rt.tiers, *rt.backend);
    if (done) done = rt.tiers.cache->begin_chunk_group(static_cast<uint32_t>(chunks.size()));
    if (done) {
        first_reads(first, first.routes);
        done = run_layers(chunks);
    }
    for (Pass& pass : chunks) abandon_rows(rt.engram, pass.rows);
    if (!done) give_up_experts(rt.tiers, *rt.backend);
    rt.tiers.cache->end_chunk_group();
    return explain(first, done);
}

}  // namespace sluice
