// Copies tensors of the forward pass from the device to a Probe. Without a Probe the calls do
// nothing and cost nothing. Engine thread only; with one, every call waits for the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/probe.h"
#include "engine/forward/state.h"
#include "engine/model/config.h"
#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

class TensorProbe {
 public:
    TensorProbe(Probe* probe, Backend& device) : probe_(probe), device_(&device) {}

    explicit operator bool() const { return probe_ != nullptr; }

    // `count` elements of device memory. Names as in Probe.
    Result<void> see(int32_t layer, const char* name, const bf16* tensor, uint64_t count) const;
    Result<void> see(int32_t layer, const char* name, const float* tensor, uint64_t count) const;
    Result<void> see(int32_t layer, const char* name, const int32_t* tensor, uint64_t count) const;
    // The candidate marks of n queries, [n][blocks], as a mask of rows [n][rows]: a marked block of
    // `block` rows marks all of its rows that exist.
    Result<void> see_candidates(int32_t layer, const uint8_t* marks, int32_t n, int32_t blocks,
                                int32_t block, int32_t rows) const;
    // All of `state` after a pass; the sequence then has `tokens` tokens.
    Result<void> see_state(const ModelConfig& config, const State& state, int32_t tokens) const;
    // Lets the probe replace h [n][H][D] and a carried pre [n][H], then shows it h as "h_in".
    Result<void> replace(const ModelConfig& config, int32_t layer, int32_t n, bf16* h,
                         float* pre) const;

    // Values that are in host memory already.
    void see_host(int32_t layer, const char* name, std::span<const float> values) const {
        if (probe_) probe_->floats(layer, name, values);
    }
    void see_host(int32_t layer, const char* name, std::span<const int64_t> values) const {
        if (probe_) probe_->integers(layer, name, values);
    }

 private:
    Result<void> see_pool(const ModelConfig& config, int32_t layer, const OpenPool& pool,
                          int32_t tokens, const char* kv, const char* gate) const;
    template <class T>
    Result<std::vector<T>> fetch(const T* tensor, uint64_t count) const;

    Probe* probe_;  // null: none
    Backend* device_;
};

}  // namespace sluice
