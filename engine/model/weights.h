// The resident weights as the forward pass sees them, and how they are loaded.
//
// Everything stays in checkpoint precision; scales of FP8 tiles wider than 32 are repeated, so that
// every tile in memory is 32 x 32. Parts that a layer lacks are empty. The memory is the backend's,
// except for what is looked up by token id, which is in host memory (a token uses one row of it).
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/row_reader.h"
#include "io/error.h"
#include "io/memory.h"
#include "io/ring/ring.h"
#include "kernels/backend.h"
#include "kernels/matrix.h"

namespace sluice {

struct TensorSpec;

// Of one mix: fn [(2 + H) * H][H * D], or, at the end of the streams, [H][H * D].
struct HyperWeights {
    F32Matrix fn;
    const float* base = nullptr;
    const float* scale = nullptr;
};

struct CompressorWeights {
    Bf16Matrix wkv;               // pools of width w: [w * dim][D]
    Bf16Matrix wgate;             // empty with a ratio of 1
    const float* place = nullptr;  // added to gates by place in the group, [ratio][w * dim]; or null
    const bf16* norm = nullptr;
};

struct IndexerWeights {
    Fp8Matrix wq_b;
    Bf16Matrix weights_proj;
    // Where the keys come from, in layers that own rows: the latents, or a compressor of their own.
    Bf16Matrix wk;
    const bf16* k_norm = nullptr;
    std::optional<CompressorWeights> compressor;
};

struct EngramWeights {
    Fp8Matrix wkv;
    const bf16* q_weight = nullptr;
    const bf16* k_weight = nullptr;
};

struct LayerWeights {
    const bf16* attn_norm = nullptr;
    const bf16* ffn_norm = nullptr;
    HyperWeights hc_attn, hc_ffn;

    const float* sink = nullptr;
    Fp8Matrix wq_a, wq_b, wkv, wo_a, wo_b;
    const bf16* q_norm = nullptr;
    const bf16* kv_norm = nullptr;
    std::optional<CompressorWeights> compressor;
    std::optional<IndexerWeights> indexer;
    std::optional<EngramWeights> engram;

    Bf16Matrix gate;
    const float* gate_bias = nullptr;       // null in a layer that routes by token id
    const int64_t* token_experts = nullptr;  // host memory: [vocab][top_k], else null
    Fp8Matrix shared_w1, shared_w2, shared_w3;
};

struct Weights {
    std::vector<LayerWeights> layers;
    std::vector<RowTable> tables;  // one per Engram layer, in config order
    std::optional<HyperWeights> hc_head;  // Arithmetic::own_mix
    const bf16* norm = nullptr;
    Bf16Matrix head;
    Bf16Matrix embedding;  // host memory
};

struct LoadControl {
    std::function<void(uint64_t done, uint64_t all)> progress;  // bytes; may be empty
    const std::atomic<bool>* cancel = nullptr;                  // may be null
};

uint64_t spec_bytes(const TensorSpec& spec);      // in the checkpoint
uint64_t resident_bytes(const TensorSpec& spec);  // in memory, without padding

struct LoadReport {
    uint64_t bytes = 0;  // read from the drives, including alignment and small gaps
    double seconds = 0;
};

// Bytes of all tensors with this home, including padding.
uint64_t dense_bytes(const std::vector<TensorSpec>& specs);
uint64_t host_bytes(const std::vector<TensorSpec>& specs);

// Reads every dense tensor once, in file order, into one allocation of the backend, and those at
// home in host memory into `host`; sets the pointers that the specs name. Refuses values that cannot be
// weights (weight_check.h); the error names tensor and element. Reads go to `staging`, memory that
// is registered with the ring and the backend, so that uploads overlap with reads. 32 MiB or more
// is best. Below 512 KiB, or 16 blocks of
// the coarsest drive, it is not used, and the call allocates that much for itself.
Result<LoadReport> load_weights(const Checkpoint& checkpoint, const std::vector<TensorSpec>& specs,
                                ReadRing& ring, Backend& backend, std::span<std::byte> host,
                                std::span<std::byte> staging, const LoadControl& control);

}  // namespace sluice
