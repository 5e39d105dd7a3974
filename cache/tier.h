// Which expert has which cache entry: the decisions of the expert cache, without bytes or time.
//
// The live cache and the simulator both decide through this class, in the same order, so that they
// agree by construction. One demand: begin(), then hit() for every expert asked, then place() for
// those that were not there.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "cache/policy.h"

namespace sluice {

class Tier {
 public:
    Tier(std::unique_ptr<Policy> policy, uint32_t entries, int32_t layers, int32_t experts);

    // Starts a demand: nothing is protected from eviction any more.
    void begin() { ++demand_; }
    // Whether `key` has an entry; then it is protected until the next begin(). `touch` tells the
    // policy (decode does, a sweep leaves the recency of decode alone). -1: it has none.
    int64_t hit(ExpertKey key, bool touch);

    struct Placed {
        int64_t entry = -1;  // -1: no room
        bool evicted = false;
        ExpertKey out;  // whose entry it was
    };
    // An entry for `key`, which has none: an empty one, else with `evict` the policy's victim.
    Placed place(ExpertKey key, bool evict);
    // The entry becomes empty (its read failed).
    void remove(int64_t entry);

    // What chunks of a prompt that share a layer's reads may take of the cache: a layer's worth, to
    // keep it until the last chunk has passed, and another where there is one, so that the next
    // layer is read meanwhile.
    uint32_t lendable() const {
        const auto a_layer = static_cast<uint32_t>(experts_);
        return entries() / 2 >= a_layer ? 2 * a_layer : std::min(entries(), a_layer);
    }
    // Takes lendable() entries out of use until take_back(): empty ones first, then those of the
    // policy's victims, layer after layer. Returns how many experts lost theirs.
    uint32_t lend();
    std::span<const uint32_t> lent() const { return lent_; }
    void take_back();  // as empty ones
    // Whether `chunks` chunks that need all experts read less if the lent entries keep each layer's
    // until the last chunk has passed it than if they go through the layers one after another.
    bool lending_pays(uint32_t chunks) const;

    void token_passed() { policy_->token_passed(); }

    int64_t find(ExpertKey key) const { return entry_of_[index(key)]; }
    uint32_t entries() const { return static_cast<uint32_t>(key_of_.size()); }

 private:
    void vacate(uint32_t entry);
    size_t layers() const { return entry_of_.size() / static_cast<size_t>(experts_); }
    size_t index(ExpertKey key) const {
        return static_cast<size_t>(key.layer) * static_cast<size_t>(experts_) +
               static_cast<size_t>(key.expert);
    }

    std::unique_ptr<Policy> policy_;
    int32_t experts_;
    uint64_t demand_ = 0;
    std::vector<int32_t> entry_of_;    // [layers * experts], -1: none
    std::vector<ExpertKey> key_of_;    // [entries]
    std::vector<uint64_t> protected_;  // [entries]: the demand that uses it
    std::vector<uint32_t> empty_;      // lowest number last
    std::vector<uint32_t> lent_;
};

}  // namespace sluice
