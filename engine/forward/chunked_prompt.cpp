// Chunks of a prompt, each layer for all of them: of a chunk that waits for its turn, the chunk
// store keeps what outlives a layer. A backend in host memory works on the store itself; a device
// has its own workspace, which holds the chunk that runs.
#include <cassert>

#include "engine/forward/forward.h"
#include "io/profile.h"

namespace sluice {

namespace {

struct Piece {
    void* device;
    void* host;
    size_t bytes;
    bool changed, needed;  // by the layer
};

std::vector<Piece> pieces(const Pass& pass, const ChunkStore& store, int32_t layer) {
    const ModelConfig& c = pass.rt.config;
    const Workspace& ws = pass.ws;
    const size_t n = pass.n, streams = n * c.hc;
    const size_t rope = (n + 1) * (c.rope_dim / 2) * sizeof(float);
    const bool first = layer == 0;
    std::vector<Piece> all = {{ws.h, store.h, streams * c.hidden * sizeof(bf16), true, true},
                              {ws.pre_a, store.pre, streams * sizeof(float), true, true},
                              {ws.plain_cos, store.plain_cos, rope, first, true},
                              {ws.plain_sin, store.plain_sin, rope, first, true},
                              {ws.yarn_cos, store.yarn_cos, rope, first, true},
                              {ws.yarn_sin, store.yarn_sin, rope, first, true}};
    if (c.kv_source_of(layer) < 0) return all;
    const bool indexes = pass.rt.weights.layers[layer].indexer.has_value();
    const size_t width = pass.topk_width;
    if (width > 0) all.push_back({ws.topk, store.topk, n * width * 4, indexes, !indexes});
    if (c.candidate_source < 0) return all;
    const bool publishes = layer == c.candidate_source;
    const bool restricted = indexes && layer > c.candidate_source;
    all.push_back({ws.candidates, store.candidates, n * ws.blocks, publishes, restricted});
    return all;
}

void work_in_store(Workspace& ws, const ChunkStore& store) {
    ws.h = store.h;
    ws.pre_a = store.pre;
    ws.plain_cos = store.plain_cos, ws.plain_sin = store.plain_sin;
    ws.yarn_cos = store.yarn_cos, ws.yarn_sin = store.yarn_sin;
    if (store.topk) ws.topk = store.topk;
    if (store.candidates) ws.candidates = store.candidates;
}

Result<void> suspend(Pass& pass, const ChunkStore& store, int32_t layer) {
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    settle(pass);
    assert(pass.pre == ws.pre_a);
    if (pass.h != ws.h) {
        const ModelConfig& c = pass.rt.config;
        const size_t streams = static_cast<size_t>(pass.n) * c.hc * c.hidden;
        backend.copy(ws.h, pass.h, streams * sizeof(bf16));
        std::swap(pass.h, pass.h_next);
    }
    if (backend.host_memory()) return {};
    const spans::Leaf leaf("keep chunk", layer);
    if (auto done = keep_reading(pass); !done) return done;
    for (const Piece& piece : pieces(pass, store, layer)) {
        if (!piece.changed) continue;
        if (auto r = backend.download(piece.host, piece.device, piece.bytes); !r) return r;
    }
    return {};
}

void resume(Pass& pass, const ChunkStore& store, int32_t layer) {
    Backend& backend = *pass.rt.backend;
    if (backend.host_memory()) return;
    const spans::Leaf leaf("resume chunk", layer);
    for (const Piece& piece : pieces(pass, store, layer)) {
        if (piece.needed) backend.upload(piece.device, piece.host, piece.bytes);
    }
}

Result<void> pass_layers(std::span<Pass> chunks) {
    Runtime& rt = chunks[0].rt;
    const ModelConfig& c = rt.config;
    std::vector<ChunkStore> stores;
    for (Pass& pass : chunks) {
        stores.push_back(rt.chunk_store->at(c, pass.position - chunks[0].position));
        if (rt.backend->host_memory()) work_in_store(pass.ws, stores.back());
    }
    for (int32_t layer = 0; layer < c.layers; layer++) {
        for (size_t i = 0; i < chunks.size(); i++) {
            Pass& pass = chunks[i];
            if (layer == 0) {
                begin_pass(pass);
            } else {
                resume(pass, stores[i], layer);
            }
            if (auto r = pass_layer(pass, layer); !r) return r;
            const bool last = layer + 1 == c.layers;
            if (auto r = last ? run_head(pass) : suspend(pass, stores[i], layer); !r) return r;
        }
    }
    return {};
}

}  // namespace

Result<void> forward_chunked(std::span<Pass> chunks) {
    Runtime& rt = chunks[0].rt;
    if (auto r = request_engram_rows(chunks[0]); !r) return r;
    Result<void> done = finish_uploads(rt);
    if (done) done = rt.cache->begin_chunk_group(static_cast<uint32_t>(chunks.size()));
    if (done) {
        read_ahead_first(chunks[0]);
        done = pass_layers(chunks);
    }
    for (Pass& pass : chunks) abandon_engram_rows(pass);
    if (!done) give_up_experts(rt);
    rt.cache->end_chunk_group();
    return done;
}

}  // namespace sluice
