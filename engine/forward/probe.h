// A look into the forward pass, for layer dumps and layer tests.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

// Receives host copies of tensors of the forward pass, and may replace some. Slow: every tensor
// waits for the device.
class Probe {
 public:
    virtual ~Probe() = default;
    // Names as in the golden dumps, as far as the model has such a thing: "h_in", "attn_in", "qr",
    // "latent", "index_latent", "index_scores", "topk_rows", "candidates", "attn_out", "ffn_in",
    // "route_ids", "route_w", "ffn_out", "h", "pre", "engram_rows", "engram_out"; layer -1: "embed",
    // "head_in", "final_norm_out", "logits". Values as fp32 (exact for bf16) or int64. After a pass
    // also the state, per layer: "state.window_kv", "state.compress_kv", "state.index_k",
    // "state.open_kv", "state.open_score", "state.index_open_kv", "state.index_open_score".
    virtual void floats(int32_t layer, std::string_view name, std::span<const float> values) {
        (void)layer, (void)name, (void)values;
    }
    virtual void integers(int32_t layer, std::string_view name, std::span<const int64_t> values) {
        (void)layer, (void)name, (void)values;
    }
    // Called before a layer's first mix with h [n][H][D] and the pre [n][H] that the layer before
    // left, empty in a model whose mixes serve their own sub-layers. Returns whether it changed
    // them.
    virtual bool replace(int32_t layer, std::span<float> h, std::span<float> pre) {
        (void)layer, (void)h, (void)pre;
        return false;
    }
};

}  // namespace sluice
