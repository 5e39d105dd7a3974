// Host copies of tensors for a Probe. Nothing happens without one.
#include <algorithm>

#include "engine/forward/forward.h"

namespace sluice {

namespace {

template <class T>
Result<std::vector<T>> fetch(Pass& pass, const T* device, uint64_t count) {
    std::vector<T> host(count);
    auto done = pass.rt.backend->download(host.data(), device, count * sizeof(T));
    if (!done) return tl::unexpected(done.error());
    return host;
}

std::vector<float> widen(const std::vector<bf16>& values) {
    std::vector<float> wide(values.size());
    std::transform(values.begin(), values.end(), wide.begin(), [](bf16 x) { return to_float(x); });
    return wide;
}

}  // namespace

Result<void> probe(Pass& pass, int32_t layer, const char* name, const bf16* device,
                   uint64_t count) {
    if (!pass.probe) return {};
    auto host = fetch(pass, device, count);
    if (!host) return tl::unexpected(host.error());
    pass.probe->floats(layer, name, widen(*host));
    return {};
}

Result<void> probe(Pass& pass, int32_t layer, const char* name, const float* device,
                   uint64_t count) {
    if (!pass.probe) return {};
    auto host = fetch(pass, device, count);
    if (!host) return tl::unexpected(host.error());
    pass.probe->floats(layer, name, *host);
    return {};
}

Result<void> probe(Pass& pass, int32_t layer, const char* name, const int32_t* device,
                   uint64_t count) {
    if (!pass.probe) return {};
    auto host = fetch(pass, device, count);
    if (!host) return tl::unexpected(host.error());
    pass.probe->integers(layer, name, std::vector<int64_t>(host->begin(), host->end()));
    return {};
}

// The mask by rows, [n][rows]: a marked block marks all its rows that exist.
Result<void> probe_candidates(Pass& pass, int32_t layer, int32_t rows) {
    if (!pass.probe) return {};
    const int32_t blocks = pass.ws.blocks, block = pass.rt.config.candidate_block;
    auto host = fetch(pass, pass.ws.candidates, static_cast<uint64_t>(pass.n) * blocks);
    if (!host) return tl::unexpected(host.error());
    std::vector<int64_t> mask;
    for (int32_t i = 0; i < pass.n; i++) {
        for (int32_t row = 0; row < rows; row++) {
            mask.push_back((*host)[static_cast<size_t>(i) * blocks + row / block]);
        }
    }
    pass.probe->integers(layer, "candidates", mask);
    return {};
}

Result<void> probe_replace(Pass& pass, int32_t layer) {
    if (!pass.probe) return {};
    const ModelConfig& c = pass.rt.config;
    const uint64_t streams = static_cast<uint64_t>(pass.n) * c.hc;
    auto h = fetch(pass, pass.h, streams * c.hidden);
    if (!h) return tl::unexpected(h.error());
    auto pre = fetch(pass, pass.pre, streams);
    if (!pre) return tl::unexpected(pre.error());
    std::vector<float> wide = widen(*h);
    if (pass.probe->replace(layer, wide, *pre)) {
        std::transform(wide.begin(), wide.end(), h->begin(), [](float x) { return to_bf16(x); });
        pass.rt.backend->upload(pass.h, h->data(), h->size() * sizeof(bf16));
        pass.rt.backend->upload(pass.pre, pre->data(), pre->size() * sizeof(float));
    }
    return probe(pass, layer, "h_in", pass.h, streams * c.hidden);
}

Result<void> probe_state(Pass& pass) {
    if (!pass.probe) return {};
    const ModelConfig& c = pass.rt.config;
    const int32_t end = pass.position + pass.n;
    const uint64_t dim = c.head_dim;
    for (int32_t layer = 0; layer < c.layers; layer++) {
        const LayerState& state = pass.state.layer(layer);
        if (auto r = probe(pass, layer, "state.window_kv", state.window, c.window * dim); !r) {
            return r;
        }
        if (!state.compressed) continue;
        const uint64_t rows = pass.state.rows(layer, end);
        auto kv = probe(pass, layer, "state.compress_kv", state.compressed, rows * dim);
        if (!kv) return kv;
        auto keys = probe(pass, layer, "state.index_k", state.keys, rows * c.index_dim);
        if (!keys) return keys;
        if (!state.open_kv) continue;
        const uint64_t open = pass.state.open_rows(layer, end) * dim;
        if (auto r = probe(pass, layer, "state.open_kv", state.open_kv, open); !r) return r;
        if (auto r = probe(pass, layer, "state.open_score", state.open_gate, open); !r) return r;
    }
    return {};
}

}  // namespace sluice
