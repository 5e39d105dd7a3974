// What every layer function is given besides its own inputs, state and scratch: where its tokens
// stand in the sequence, and the hooks of the pass.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "cache/expert_cache.h"
#include "engine/forward/tensor_probe.h"
#include "io/error.h"

namespace sluice {

// The tokens of a pass: n of them, the first one at position `first` of the sequence.
struct Positions {
    int32_t first = 0;
    int32_t n = 0;

    int32_t end() const { return first + n; }
};

// How the outside world takes part in a pass: it may stop it, see its tensors and its progress, and
// reads of experts go on. Engine thread only.
class PassHooks {
 public:
    PassHooks(ExpertCache& cache, TensorProbe probe, const std::atomic<bool>* cancel)
        : probe(probe), cache_(&cache), cancel_(cancel) {}

    // To be called between pieces of work. Lets reads of experts progress without waiting for any.
    // Code::interrupted if the user stopped; else what a failed read reports.
    Result<void> go_on() const;

    TensorProbe probe;
    // Receives the layers done so far, after every layer and, in a prompt, after every expert; may
    // be empty.
    std::function<void(double layers_done)> progress;

 private:
    ExpertCache* cache_;
    const std::atomic<bool>* cancel_;  // may be null
};

inline Result<void> PassHooks::go_on() const {
    if (cancel_ && cancel_->load(std::memory_order_relaxed)) {
        return fail(Code::interrupted, "stopped");
    }
    return cache_->pump();
}

}  // namespace sluice
