#include "engine/forward/tensor_probe.h"

#include <algorithm>
#include <vector>

namespace sluice {

namespace {

std::vector<float> widen(const std::vector<bf16>& values) {
    std::vector<float> wide(values.size());
    std::transform(values.begin(), values.end(), wide.begin(), [](bf16 x) { return to_float(x); });
    return wide;
}

}  // namespace

template <class T>
Result<std::vector<T>> TensorProbe::fetch(const T* tensor, uint64_t count) const {
    std::vector<T> host(count);
    auto done = device_->download(host.data(), tensor, count * sizeof(T));
    if (!done) return tl::unexpected(done.error());
    return host;
}

Result<void> TensorProbe::see(int32_t layer, const char* name, const bf16* tensor,
                              uint64_t count) const {
    if (!probe_) return {};
    auto host = fetch(tensor, count);
    if (!host) return tl::unexpected(host.error());
    probe_->floats(layer, name, widen(*host));
    return {};
}

Result<void> TensorProbe::see(int32_t layer, const char* name, const float* tensor,
                              uint64_t count) const {
    if (!probe_) return {};
    auto host = fetch(tensor, count);
    if (!host) return tl::unexpected(host.error());
    probe_->floats(layer, name, *host);
    return {};
}

Result<void> TensorProbe::see(int32_t layer, const char* name, const int32_t* tensor,
                              uint64_t count) const {
    if (!probe_) return {};
    auto host = fetch(tensor, count);
    if (!host) return tl::unexpected(host.error());
    probe_->integers(layer, name, std::vector<int64_t>(host->begin(), host->end()));
    return {};
}

Result<void> TensorProbe::see_candidates(int32_t layer, const uint8_t* marks, int32_t n,
                                         int32_t blocks, int32_t block, int32_t rows) const {
    if (!probe_) return {};
    auto host = fetch(marks, static_cast<uint64_t>(n) * blocks);
    if (!host) return tl::unexpected(host.error());
    std::vector<int64_t> mask;
    for (int32_t i = 0; i < n; ++i) {
        for (int32_t row = 0; row < rows; ++row) {
            mask.push_back((*host)[static_cast<size_t>(i) * blocks + row / block]);
        }
    }
    probe_->integers(layer, "candidates", mask);
    return {};
}

Result<void> TensorProbe::replace(const ModelConfig& config, int32_t layer, int32_t n, bf16* h,
                                  float* pre) const {
    if (!probe_) return {};
    const uint64_t streams = static_cast<uint64_t>(n) * config.hc;
    auto host_h = fetch(h, streams * config.hidden);
    if (!host_h) return tl::unexpected(host_h.error());
    auto host_pre = fetch(pre, config.arithmetic.own_mix ? 0 : streams);
    if (!host_pre) return tl::unexpected(host_pre.error());
    std::vector<float> wide = widen(*host_h);
    if (probe_->replace(layer, wide, *host_pre)) {
        std::transform(wide.begin(), wide.end(), host_h->begin(),
                       [](float x) { return to_bf16(x); });
        device_->upload(h, host_h->data(), host_h->size() * sizeof(bf16));
        device_->upload(pre, host_pre->data(), host_pre->size() * sizeof(float));
    }
    return see(layer, "h_in", h, streams * config.hidden);
}

Result<void> TensorProbe::see_pool(const ModelConfig& config, int32_t layer, const OpenPool& pool,
                                   int32_t tokens, const char* kv, const char* gate) const {
    if (pool.slots == 0) return {};
    const LayerRows& rows = config.rows[layer];
    const int32_t slots = rows.overlap ? pool.slots : tokens % rows.ratio;
    const uint64_t count = static_cast<uint64_t>(slots) * static_cast<uint64_t>(pool.columns);
    if (auto r = see(layer, kv, pool.kv, count); !r) return r;
    return see(layer, gate, pool.gate, count);
}

Result<void> TensorProbe::see_state(const ModelConfig& config, const State& state,
                                    int32_t tokens) const {
    if (!probe_) return {};
    const uint64_t dim = config.head_dim;
    for (int32_t layer = 0; layer < config.layers; ++layer) {
        const LayerState& own = state.layer(layer);
        auto seen = see(layer, "state.window_kv", own.window, config.window * dim);
        if (!seen) return seen;
        if (!own.compressed) continue;
        const uint64_t rows = state.rows(layer, tokens);
        seen = see(layer, "state.compress_kv", own.compressed, rows * dim);
        if (seen && own.keys) {
            seen = see(layer, "state.index_k", own.keys, rows * config.index_dim);
        }
        if (seen) {
            seen = see_pool(config, layer, own.open, tokens, "state.open_kv", "state.open_score");
        }
        if (seen) {
            seen = see_pool(config, layer, own.index_open, tokens, "state.index_open_kv",
                            "state.index_open_score");
        }
        if (!seen) return seen;
    }
    return {};
}

}  // namespace sluice
