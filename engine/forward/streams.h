// The residual streams of a pass (hyper-connections, deepseek-v41.md sections 3.2-3.4, deepseek-v4.md
// section 3.1): H streams per token and the coefficients that each sub-layer mixes, for its own sum
// of the streams (Arithmetic::own_mix) or for the next sub-layer's.
//
//   start(embedding rows)  ->  for every sub-layer: enter(), the sub-layer reads io().x and writes
//   its output, leave()  ->  settle() before h() is read
//
// The output of a sub-layer is added to the streams lazily: by the first step of the next enter(),
// or by settle(). Device memory, not owned. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace sluice {

// Buffers of the streams: n tokens, H streams, D wide.
struct StreamBuffers {
    bf16* h = nullptr;        // [n][H][D]
    bf16* h_short = nullptr;  // [short_rows][H][D]
    int32_t short_rows = 0;   // passes of at most this many tokens expand into another buffer
    float *pre_a = nullptr, *pre_b = nullptr;    // [n][H]
    float *post_a = nullptr, *post_b = nullptr;  // [n][H]
    float *comb_a = nullptr, *comb_b = nullptr;  // [n][H][H]
};

// What a sub-layer reads and writes, [n][D] each.
struct SublayerIo {
    bf16* collapsed = nullptr;  // the streams' sum before the norm
    bf16* x = nullptr;          // its input: `collapsed` after the norm
    QuantRows xq;               // x quantised
    bf16* y = nullptr;          // its output
};

// The output of a mixture of experts before it is summed: y = shared + sum of the k partials.
struct ExpertOutput {
    const bf16* partial = nullptr;  // [n][k][D]
    const bf16* shared = nullptr;   // [n][D]
};

class Streams {
 public:
    Streams() = default;
    Streams(const ModelConfig& config, int32_t n, const StreamBuffers& buffers,
            const SublayerIo& io, Backend& device);

    // Every stream starts as its token's row of the embedding, `rows` [n][D] in host memory; the
    // first carried `pre` is one-hot on the first stream. Uses io().x.
    void start(const std::vector<bf16>& rows);

    // From the streams, in one launch where the backend can: the coefficients of this sub-layer
    // and, with them or with those that the sub-layer before computed, its input io().x and xq.
    void enter(const HyperWeights& weights, const bf16* norm);
    void leave();                           // the sub-layer's output is io().y
    void leave(const ExpertOutput& parts);  // it is the sum of `parts`, which go to io().y first
    // Adds an output that is still pending to the streams.
    void settle();
    // settle(), then moves the streams into the buffer they started in.
    void settle_at_home();
    // After the last settle(): the streams' sum into io().collapsed. `own`: with a mix of its own,
    // whose coefficients go to own_pre [n][H]; null: with the last sub-layer's.
    void collapse(const HyperWeights* own, float* own_pre);

    const SublayerIo& io() const { return io_; }
    int32_t n() const { return n_; }
    bf16* h() const { return h_; }       // [n][H][D]; current after settle()
    float* pre() const { return pre_; }  // [n][H], for the next sub-layer

 private:
    const ModelConfig* config_ = nullptr;
    Backend* device_ = nullptr;
    int32_t n_ = 0;
    StreamBuffers buffers_;
    SublayerIo io_;

    bf16* h_ = nullptr;
    bf16* h_next_ = nullptr;  // where the next expansion puts them: another buffer for short
                              // passes, else the same
    float *pre_ = nullptr, *pre_next_ = nullptr;
    float *post_ = nullptr, *post_next_ = nullptr;  // of the sub-layer that runs, of the next one
    float *comb_ = nullptr, *comb_next_ = nullptr;
    bool pending_ = false;  // the last sub-layer's output is not in the streams yet
    bool combine_ = false;  // nor has it been summed from `parts_`
    ExpertOutput parts_;
};

}  // namespace sluice
