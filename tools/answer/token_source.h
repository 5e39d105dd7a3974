// Where generate() gets logits from: a session, or, in tests, a scripted source.
#pragma once

#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "engine/prompt_cache/prompt_cache.h"
#include "io/error.h"

namespace sluice {

// One sequence of tokens. Used by one thread.
class TokenSource {
 public:
    virtual ~TokenSource() = default;
    // Keeps the longest prefix of `ids` (without the last one) that the source already holds;
    // returns its length.
    virtual Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids) = 0;
    // Where what the last rewind_to_prefix() kept was.
    virtual KeptBy kept_by() const { return KeptBy::session; }
    virtual Result<std::span<const float>> feed(std::span<const int32_t> ids) = 0;
    // As feed(), but returns the id that a greedy sampler would choose.
    virtual Result<int32_t> feed_best(std::span<const int32_t> ids) = 0;
    // The answer is complete, or was interrupted: what was fed so far may be worth keeping.
    virtual void answered() {}
    virtual RunStats stats() const = 0;
    // Error when a checkpoint file has changed since it was opened. Called every second and when
    // the answer is complete.
    virtual Result<void> files_unchanged() const { return {}; }
};

class SessionSource : public TokenSource {
 public:
    explicit SessionSource(Session& session) : session_(session) {}
    Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids) override {
        return session_.rewind_to_prefix(ids);
    }
    Result<std::span<const float>> feed(std::span<const int32_t> ids) override {
        return session_.feed(ids);
    }
    Result<int32_t> feed_best(std::span<const int32_t> ids) override {
        return session_.feed_best(ids);
    }
    RunStats stats() const override { return session_.stats(); }
    Result<void> files_unchanged() const override { return session_.files_unchanged(); }

 private:
    Session& session_;
};

}  // namespace sluice
