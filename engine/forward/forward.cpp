#include "engine/forward/forward.h"

#include <algorithm>
#include <cstring>

#include "engine/model/rope.h"
#include "io/clock.h"
#include "io/profile.h"
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

// Every stream starts as the token's row; pre as one-hot on the first.
void embed(Pass& pass) {
    const ModelConfig& c = pass.rt.config;
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const uint64_t dim = static_cast<uint64_t>(c.hidden), n = static_cast<uint64_t>(pass.n);
    std::vector<bf16> rows(n * dim);
    for (uint64_t i = 0; i < n; i++) {
        std::memcpy(rows.data() + i * dim, pass.rt.weights.embedding.data + pass.ids[i] * dim,
                    dim * sizeof(bf16));
    }
    backend.upload(ws.x, rows.data(), rows.size() * sizeof(bf16));
    const size_t row = dim * sizeof(bf16);
    for (int32_t j = 0; j < c.hc; j++) {
        backend.copy_rows(ws.h + j * dim, c.hc * row, ws.x, row, row, n);
    }
    std::vector<float> pre(n * c.hc, 0.0f);
    for (uint64_t i = 0; i < n; i++) pre[i * c.hc] = 1.0f;
    backend.upload(ws.pre_a, pre.data(), pre.size() * sizeof(float));
    pass.pre = ws.pre_a;
    pass.pre_next = ws.pre_b;
    pass.post = ws.post_a, pass.post_next = ws.post_b;
    pass.comb = ws.comb_a, pass.comb_next = ws.comb_b;
    pass.h = ws.h;
    pass.h_next = pass.n <= ws.shape.short_rows ? ws.h_short : ws.h;

    if (!pass.probe) return;
    std::vector<float> values;
    for (bf16 value : rows) values.push_back(to_float(value));
    pass.probe->floats(-1, "embed", values);
}

// The coefficients of this sub-layer from the streams as they are; its input from the coefficients
// of the sub-layer before. Afterwards pass.pre is what the next sub-layer uses.
void enter(Pass& pass, const HyperWeights& hyper, const bf16* norm) {
    const ModelConfig& c = pass.rt.config;
    Workspace& ws = pass.ws;
    const int32_t n = pass.n;
    bf16* h = pass.pending ? pass.h_next : pass.h;
    HyperStep step{};
    if (pass.combine) step.combine = {ws.y, ws.partial, ws.shared, n, c.top_k, c.hidden};
    if (pass.pending) step.expand = {pass.h, ws.y, pass.post, pass.comb, n, c.hc, c.hidden};
    step.mix = {.pre = pass.pre_next,
                .post = pass.post_next,
                .comb = pass.comb_next,
                .h = h,
                .fn = hyper.fn,
                .base = hyper.base,
                .scale = hyper.scale,
                .n = n,
                .hc = c.hc,
                .dim = c.hidden,
                .iterations = c.hc_iterations,
                .eps = c.norm_eps,
                .hc_eps = c.hc_eps};
    step.collapse = {ws.collapsed, pass.pre, h, n, c.hc, c.hidden};
    step.norm = {ws.x, ws.collapsed, norm, n, c.hidden, c.norm_eps};
    step.quant = {ws.xq, ws.x, n, c.hidden};
    pass.rt.backend->run(step);
    if (pass.pending) std::swap(pass.h, pass.h_next);
    std::swap(pass.pre, pass.pre_next);
    std::swap(pass.post, pass.post_next);
    std::swap(pass.comb, pass.comb_next);
    pass.pending = pass.combine = false;
}

// A probe looks at every sub-layer's output and at the streams.
void leave(Pass& pass) {
    pass.pending = true;
    if (pass.probe) settle(pass);
}

Result<void> run_layer(Pass& pass, int32_t layer) {
    const spans::Group group("layer", layer);
    const spans::Leaf leaf("attention", layer);
    const ModelConfig& c = pass.rt.config;
    const LayerWeights& w = pass.rt.weights.layers[layer];
    Workspace& ws = pass.ws;
    const uint64_t n = pass.n, dim = c.hidden, streams = n * c.hc;

    if (w.engram) {
        settle(pass);
        if (auto r = engram(pass, layer); !r) return r;
    }
    if (auto r = probe_replace(pass, layer); !r) return r;

    // Of one token nothing here depends on experts that may be missing, up to the router.
    if (n == 1) pass.rt.backend->begin_repeat(layer);
    enter(pass, w.hc_attn, w.attn_norm);
    if (auto r = probe(pass, layer, "attn_in", ws.x, n * dim); !r) return r;
    if (auto r = attention(pass, layer); !r) return r;
    if (auto r = probe(pass, layer, "attn_out", ws.y, n * dim); !r) return r;
    leave(pass);
    if (auto r = pass.go_on(); !r) return r;

    enter(pass, w.hc_ffn, w.ffn_norm);
    if (auto r = probe(pass, layer, "ffn_in", ws.x, n * dim); !r) return r;
    if (auto r = experts(pass, layer); !r) return r;
    pass.combine = true;
    leave(pass);
    if (auto r = probe(pass, layer, "ffn_out", ws.y, n * dim); !r) return r;
    if (auto r = probe(pass, layer, "h", pass.h, streams * dim); !r) return r;
    return probe(pass, layer, "pre", pass.pre, streams);
}

tl::unexpected<Error> logit_not_finite(const Pass& pass, size_t id, int32_t position) {
    return not_finite(
        pass, cat("the logit of token ", id, " at position ", position, " is not a finite number"));
}

Result<void> check_finite(const Pass& pass, std::span<const float> logits, int32_t position) {
    for (size_t id = 0; id < logits.size(); id++) {
        if (!is_finite(logits[id])) return logit_not_finite(pass, id, position);
    }
    return {};
}

// Logits of `count` rows of ws.x to the host; the head may live there itself.
Result<void> head_rows(Pass& pass, int32_t row, int32_t count, float* logits) {
    Runtime& rt = pass.rt;
    Workspace& ws = pass.ws;
    const uint64_t dim = rt.config.hidden, vocab = rt.config.vocab;
    const bf16* x = ws.x + row * dim;
    if (!rt.head_backend) {
        rt.backend->run(LinearBf16{nullptr, ws.logits, rt.weights.head, x, count});
        return rt.backend->download(logits, ws.logits, vocab * count * sizeof(float));
    }
    std::vector<bf16> rows(dim * count);
    auto done = rt.backend->download(rows.data(), x, rows.size() * sizeof(bf16));
    if (!done) return done;
    const auto start = Clock::now();
    rt.head_backend->run(LinearBf16{nullptr, logits, rt.weights.head, rows.data(), count});
    rt.host_s += seconds_since(start);
    return {};
}

// The best token of the last row, chosen where the logits are.
Result<void> best_row(Pass& pass) {
    Runtime& rt = pass.rt;
    Workspace& ws = pass.ws;
    const bf16* x = ws.x + static_cast<uint64_t>(pass.n - 1) * rt.config.hidden;
    rt.backend->run(LinearBf16{nullptr, ws.logits, rt.weights.head, x, 1});
    rt.backend->run(Best{ws.best, ws.logits, 1, rt.config.vocab});
    int32_t place[2];
    if (auto done = rt.backend->download(place, ws.best, sizeof place); !done) return done;
    if (place[1] >= 0) return logit_not_finite(pass, place[1], pass.position + pass.n - 1);
    *pass.best = place[0];
    return {};
}

}  // namespace

tl::unexpected<Error> not_finite(const Pass& pass, std::string_view what) {
    return fail(
        Code::numerical,
        cat(what, "; whether a file is damaged tells: ", pass.rt.checkpoint.check_command()));
}

Result<void> run_head(Pass& pass) {
    const spans::Leaf leaf("head");
    const ModelConfig& c = pass.rt.config;
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    if (pass.n == 1) backend.begin_repeat(c.layers);
    settle(pass);
    backend.run(HyperCollapse{ws.collapsed, pass.pre, pass.h, pass.n, c.hc, c.hidden});
    backend.run(RmsNorm{ws.x, ws.collapsed, pass.rt.weights.norm, pass.n, c.hidden, c.norm_eps});
    const uint64_t dim = c.hidden;
    if (auto r = probe(pass, -1, "final_norm_out", ws.x, pass.n * dim); !r) return r;

    if (pass.best && !pass.probe && !pass.rt.head_backend) return best_row(pass);
    const size_t vocab = static_cast<size_t>(c.vocab);
    int32_t row = pass.each ? 0 : pass.n - 1;
    std::vector<float> host(vocab * std::min(pass.n - row, ws.shape.logit_rows));
    while (row < pass.n) {
        const int32_t count = std::min(pass.n - row, ws.shape.logit_rows);
        auto done = head_rows(pass, row, count, host.data());
        if (!done) return done;
        for (int32_t i = 0; i < count; i++) {
            const std::span<const float> logits(host.data() + vocab * i, vocab);
            const int32_t position = pass.position + row + i;
            if (auto finite = check_finite(pass, logits, position); !finite) return finite;
            if (pass.probe) pass.probe->floats(-1, "logits", logits);
            if (pass.logits) pass.logits(position, logits);
        }
        row += count;
    }
    return {};
}

Result<void> pass_layer(Pass& pass, int32_t layer) {
    if (auto go = pass.go_on(); !go) return go;
    if (auto done = run_layer(pass, layer); !done) {
        if (done.error().code == Code::interrupted) return done;
        // A failed read of an expert says already where it was.
        const std::string here = cat("layer ", layer);
        const std::string& said = done.error().message;
        if (said.starts_with(here + ",") || said.starts_with(here + ":")) return done;
        return within(here, done.error());
    }
    if (pass.progress) pass.progress(layer + 1);
    return {};
}

void settle(Pass& pass) {
    const ModelConfig& c = pass.rt.config;
    Workspace& ws = pass.ws;
    if (!pass.pending) return;
    Backend& backend = *pass.rt.backend;
    if (pass.combine) {
        backend.run(Combine{ws.y, ws.partial, ws.shared, pass.n, c.top_k, c.hidden});
    }
    backend.run(HyperExpand{pass.h, ws.y, pass.post, pass.comb, pass.n, c.hc, c.hidden});
    pass.pending = pass.combine = false;
}

void begin_pass(Pass& pass) {
    const spans::Leaf leaf("embedding");
    pass.ws.fit(pass.rt.config, pass.n);
    upload_ropes(pass);
    embed(pass);
}

Result<void> forward(Pass& pass) {
    if (auto r = request_engram_rows(pass); !r) return r;
    read_ahead_first(pass);
    begin_pass(pass);
    Result<void> result;
    for (int32_t layer = 0; layer < pass.rt.config.layers && result; layer++) {
        result = pass_layer(pass, layer);
    }
    if (result) result = run_head(pass);
    if (result) result = probe_state(pass);
    abandon_engram_rows(pass);
    return result;
}

}  // namespace sluice
