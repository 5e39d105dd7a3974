// One timeline of tokens over a loaded engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/forward/probe.h"
#include "engine/stats.h"
#include "io/error.h"

namespace sluice {

class Engine;

class Session {
 public:
    ~Session();
    // Feeds ids at the current position, in chunks of settings().chunk, which go through each layer
    // together as far as RAM keeps them and where that reads fewer experts, and returns the logits
    // [vocab] of the last one, valid until the next call. `each` (may be empty) is told the logits
    // of every position. On Code::interrupted (cancel), io or numerical errors the session's
    // position is back where it was before the call, its state as then.
    Result<std::span<const float>> feed(
        std::span<const int32_t> ids,
        const std::function<void(int32_t position, std::span<const float>)>& each = {});
    // The same, but only the id of the best logit of the last one, the lowest among equals: where
    // the head is on a card, the logits stay there.
    Result<int32_t> feed_best(std::span<const int32_t> ids);
    int32_t position() const;
    const std::vector<int32_t>& tokens() const;  // all fed so far
    // Makes the session hold exactly `ids` minus the last: keeps the common prefix if state allows,
    // else starts again; returns how many were kept. Then feed() the rest.
    Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids);
    void reset();
    void set_cancel(const std::atomic<bool>* cancel);
    void set_probe(Probe* probe);  // chunks go one after another then
    void set_progress(
        std::function<void(double done)> progress);  // share of a feed, by layers to go through
    const RunStats& stats() const;
    void clear_stats();
    // At the end: what --record-routes names is whole. An error (io) if it could not be written.
    Result<void> keep_routes();
    // After an answer: corrupt if a file of the model changed since it was opened.
    Result<void> files_unchanged() const;

    struct Impl;

 private:
    friend class Engine;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
