#include "engine/forward.h"

#include <algorithm>
#include <cstring>

#include "engine/rope.h"
#include "io/text.h"

namespace sluice {

namespace {

// Positions from one before the chunk: a group that began in the last call is rotated by its first
// token.
void upload_ropes(Pass& pass) {
    Runtime& rt = pass.rt;
    const int32_t first = pass.position - 1, count = pass.n + 1;
    const auto upload = [&](const std::vector<float>& frequencies, float* cos, float* sin) {
        const size_t size = frequencies.size() * count;
        std::vector<float> host(2 * size);
        fill_rope(frequencies, first, count, host.data(), host.data() + size);
        rt.backend->upload(cos, host.data(), size * sizeof(float));
        rt.backend->upload(sin, host.data() + size, size * sizeof(float));
        return RopeTable{cos, sin, first, count, static_cast<int32_t>(frequencies.size())};
    };
    pass.plain = upload(rt.plain_frequencies, pass.ws.plain_cos, pass.ws.plain_sin);
    pass.yarn = upload(rt.yarn_frequencies, pass.ws.yarn_cos, pass.ws.yarn_sin);
}

Result<void> embed(Pass& pass) {
    const ModelConfig& c = pass.rt.config;
    Backend& backend = *pass.rt.backend;
    const uint64_t dim = static_cast<uint64_t>(c.hidden);
    for (int32_t i = 0; i < pass.n; i++) {
        const bf16* row = pass.rt.weights.embedding.data + pass.ids[i] * dim;
        bf16* streams = pass.ws.h + static_cast<uint64_t>(i) * c.hc * dim;
        for (int32_t j = 0; j < c.hc; j++) backend.upload(streams + j * dim, row, dim * 2);
    }
    std::vector<float> pre(static_cast<size_t>(pass.n) * c.hc, 0.0f);
    for (int32_t i = 0; i < pass.n; i++) pre[static_cast<size_t>(i) * c.hc] = 1.0f;
    backend.upload(pass.ws.pre_a, pre.data(), pre.size() * sizeof(float));
    pass.pre = pass.ws.pre_a;
    pass.pre_next = pass.ws.pre_b;

    if (!pass.probe) return {};
    std::vector<float> values;
    for (int32_t id : pass.ids) {
        const bf16* row = pass.rt.weights.embedding.data + id * dim;
        for (uint64_t d = 0; d < dim; d++) values.push_back(to_float(row[d]));
    }
    pass.probe->floats(-1, "embed", values);
    return {};
}

// The coefficients of this sub-layer from the streams as they are; its input from the coefficients
// of the sub-layer before. Afterwards pass.pre is what the next sub-layer uses.
void enter(Pass& pass, const HyperWeights& hyper, const bf16* norm) {
    const ModelConfig& c = pass.rt.config;
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    backend.run(HyperMix{.pre = pass.pre_next,
                         .post = ws.post,
                         .comb = ws.comb,
                         .h = ws.h,
                         .fn = hyper.fn,
                         .base = hyper.base,
                         .scale = hyper.scale,
                         .n = pass.n,
                         .hc = c.hc,
                         .dim = c.hidden,
                         .iterations = c.hc_iterations,
                         .eps = c.norm_eps,
                         .hc_eps = c.hc_eps});
    backend.run(HyperCollapse{ws.collapsed, pass.pre, ws.h, pass.n, c.hc, c.hidden});
    backend.run(RmsNorm{ws.x, ws.collapsed, norm, pass.n, c.hidden, c.norm_eps});
    std::swap(pass.pre, pass.pre_next);
}

void leave(Pass& pass) {
    const ModelConfig& c = pass.rt.config;
    Workspace& ws = pass.ws;
    pass.rt.backend->run(HyperExpand{ws.h, ws.y, ws.post, ws.comb, pass.n, c.hc, c.hidden});
}

Result<void> run_layer(Pass& pass, int32_t layer) {
    const ModelConfig& c = pass.rt.config;
    const LayerWeights& w = pass.rt.weights.layers[layer];
    Workspace& ws = pass.ws;
    const uint64_t n = pass.n, dim = c.hidden, streams = n * c.hc;

    if (w.engram) {
        if (auto r = engram(pass, layer); !r) return r;
    }
    if (auto r = probe_replace(pass, layer); !r) return r;

    enter(pass, w.hc_attn, w.attn_norm);
    if (auto r = probe(pass, layer, "attn_in", ws.x, n * dim); !r) return r;
    if (auto r = attention(pass, layer); !r) return r;
    if (auto r = probe(pass, layer, "attn_out", ws.y, n * dim); !r) return r;
    leave(pass);
    if (auto r = pass.go_on(); !r) return r;

    enter(pass, w.hc_ffn, w.ffn_norm);
    if (auto r = probe(pass, layer, "ffn_in", ws.x, n * dim); !r) return r;
    if (auto r = experts(pass, layer); !r) return r;
    if (auto r = probe(pass, layer, "ffn_out", ws.y, n * dim); !r) return r;
    leave(pass);
    if (auto r = probe(pass, layer, "h", ws.h, streams * dim); !r) return r;
    return probe(pass, layer, "pre", pass.pre, streams);
}

Result<void> check_finite(std::span<const float> logits, int32_t position) {
    for (size_t id = 0; id < logits.size(); id++) {
        if (is_finite(logits[id])) continue;
        return fail(Code::numerical, cat("the logit of token ", id, " at position ", position,
                                         " is not a finite number"));
    }
    return {};
}

Result<void> run_head(Pass& pass) {
    const ModelConfig& c = pass.rt.config;
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    backend.run(HyperCollapse{ws.collapsed, pass.pre, ws.h, pass.n, c.hc, c.hidden});
    backend.run(RmsNorm{ws.x, ws.collapsed, pass.rt.weights.norm, pass.n, c.hidden, c.norm_eps});
    const uint64_t dim = c.hidden;
    if (auto r = probe(pass, -1, "final_norm_out", ws.x, pass.n * dim); !r) return r;

    const size_t vocab = static_cast<size_t>(c.vocab);
    int32_t row = pass.each ? 0 : pass.n - 1;
    std::vector<float> host(vocab * std::min(pass.n - row, ws.shape.logit_rows));
    while (row < pass.n) {
        const int32_t count = std::min(pass.n - row, ws.shape.logit_rows);
        backend.run(LinearBf16{.y_bf16 = nullptr,
                               .y_f32 = ws.logits,
                               .w = pass.rt.weights.head,
                               .x = ws.x + row * dim,
                               .n = count});
        auto done = backend.download(host.data(), ws.logits, vocab * count * sizeof(float));
        if (!done) return done;
        for (int32_t i = 0; i < count; i++) {
            const std::span<const float> logits(host.data() + vocab * i, vocab);
            const int32_t position = pass.position + row + i;
            if (auto finite = check_finite(logits, position); !finite) return finite;
            if (pass.probe) pass.probe->floats(-1, "logits", logits);
            if (pass.logits) pass.logits(position, logits);
        }
        row += count;
    }
    return {};
}

Result<void> run_layers(Pass& pass) {
    for (int32_t layer = 0; layer < pass.rt.config.layers; layer++) {
        if (auto go = pass.go_on(); !go) return go;
        if (auto done = run_layer(pass, layer); !done) {
            if (done.error().code == Code::interrupted) return done;
            return within(cat("layer ", layer), done.error());
        }
        if (pass.progress) pass.progress(layer + 1);
    }
    return {};
}

}  // namespace

Result<void> forward(Pass& pass) {
    if (auto r = request_engram_rows(pass); !r) return r;
    Result<void> result;
    upload_ropes(pass);
    result = embed(pass);
    if (result) result = run_layers(pass);
    if (result) result = run_head(pass);
    if (result) result = probe_state(pass);
    abandon_engram_rows(pass);
    return result;
}

}  // namespace sluice
