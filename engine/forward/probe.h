// Looks into the forward pass: layer dumps and layer tests.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

// Sees (and may replace) tensors of the forward pass: dumps and layer tests. Host copies; slow.
class Probe {
 public:
    virtual ~Probe() = default;
    // Names as in golden dumps: "h_in", "attn_in", "qr", "latent", "topk_rows", "candidates",
    // "attn_out", "ffn_in", "route_ids", "route_w", "ffn_out", "h", "pre", "engram_rows",
    // "engram_out"; layer -1: "embed", "final_norm_out", "logits". Values as fp32 (exact for bf16)
    // or int64.
    virtual void floats(int32_t layer, std::string_view name, std::span<const float> values) {
        (void)layer, (void)name, (void)values;
    }
    virtual void integers(int32_t layer, std::string_view name, std::span<const int64_t> values) {
        (void)layer, (void)name, (void)values;
    }
    // Before a layer's first mix, after Engram: h [n][H][D] and pre [n][H]; true if changed.
    virtual bool replace(int32_t layer, std::span<float> h, std::span<float> pre) {
        (void)layer, (void)h, (void)pre;
        return false;
    }
};

}  // namespace sluice
