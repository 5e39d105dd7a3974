// Tier: which expert has which cache entry. The decisions of an expert cache, without bytes or
// time.
//
// ExpertCache, DeviceExperts and the simulator all decide with this class and in the same order, so
// they agree by construction. Per demand: begin(), then hit() for every expert asked for, then
// place() for the missing ones.
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

    // Starts a demand and ends all protection from eviction.
    void begin() { ++demand_; }
    // The entry of `key`, now protected until the next begin(); -1 if it has none. With `touch` the
    // policy learns of the use: decode does that, a prompt leaves the order of decode's uses alone.
    int64_t hit(ExpertKey key, bool touch);

    struct Placed {
        int64_t entry = -1;  // -1: no room
        bool evicted = false;
        ExpertKey out;  // the evicted expert
    };
    // Gives `key`, which has none, an entry: an empty one or, with `evict`, the policy's victim.
    Placed place(ExpertKey key, bool evict);
    // Gives `key`, which has none and that nobody asked for, an entry that is empty. False: there
    // is none.
    bool place_unasked(ExpertKey key);
    // Tells the policy the order of what place_unasked() placed: those that no demand has touched
    // since are worth less than the others; among them, the first of `by_value` is worth most.
    void settle(std::span<const ExpertKey> by_value);
    // Empties the entry, because its read failed or was given up.
    void remove(int64_t entry);

    // How many entries a chunk group may borrow: a layer's worth, to keep it until the last chunk
    // has passed, and if the cache is large enough a second one, to read the next layer meanwhile.
    uint32_t lendable() const {
        const auto a_layer = static_cast<uint32_t>(experts_);
        return entries() / 2 >= a_layer ? 2 * a_layer : std::min(entries(), a_layer);
    }
    // Takes lendable() entries out of use until take_back(): empty ones first, then the policy's
    // victims, layer by layer. Returns how many experts were evicted.
    uint32_t lend();
    std::span<const uint32_t> lent() const { return lent_; }
    void take_back();  // they are empty then
    // Whether `chunks` chunks that need all experts read less as a chunk group, in which the lent
    // entries keep a layer's experts until the last chunk has passed, than one after another.
    bool lending_pays(uint32_t chunks) const;

    void token_passed() { policy_->token_passed(); }

    int64_t find(ExpertKey key) const { return entry_of_[index(key)]; }
    bool full() const { return empty_.empty(); }
    // All experts that have an entry, the one that decode used last first.
    std::vector<ExpertKey> by_recency() const;
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
    std::vector<uint64_t> protected_;  // [entries]: the last demand that used it
    // [entries]: the last demand that filled or touched it; 0: none
    std::vector<uint64_t> touched_;
    std::vector<uint32_t> empty_;      // lowest number last
    std::vector<uint32_t> lent_;
};

}  // namespace sluice
