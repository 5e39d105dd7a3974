// ChoosingPolicy: follows, of several rival policies, the one that misses least on the routes so
// far.
//
// Every rival sees all that happens in the cache, so the cache can follow any of them at any time.
// Beside that, every rival decides alone in a small cache of its own that holds ids and no bytes: a
// sample of the experts, chosen by their numbers, and the same share of the slots. It misses about
// as often as a whole cache would that followed this rival. Its misses are counted; older ones
// count less. Once a token, the cache goes over to the rival with the fewest misses if it saves
// more than one use in a hundred compared with the followed one.
//
// Deterministic, integers only. Costs what its rivals cost, about twice.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/policy.h"

namespace sluice {

class ChoosingPolicy : public Policy {
 public:
    struct Rival {
        std::string_view name;
        std::unique_ptr<Policy> policy;  // over the cache's slots
        std::unique_ptr<Policy> alone;   // over sampled_slots() slots of its own
    };
    // Experts are sampled, one in 2, 4 or 8, if the sample's slots are at least 256.
    static uint32_t sampled_slots(const PolicyOptions& options);
    // Follows the first rival until another one is better.
    ChoosingPolicy(std::vector<Rival> rivals, const PolicyOptions& options);

    void inserted(uint32_t slot, ExpertKey key) override;
    void touched(uint32_t slot, ExpertKey key) override;
    void removed(uint32_t slot) override;
    void token_passed() override;
    int64_t victim(const std::function<bool(uint32_t slot)>& evictable, ExpertKey wanted) override;
    std::string report() const override;  // the rivals, each with the tokens it was followed for

 private:
    // A rival with the cache of its own.
    struct Alone {
        std::string_view name;
        std::unique_ptr<Policy> policy, alone;
        std::vector<int32_t> slot_of;     // [layers * experts], -1: none
        std::vector<size_t> expert_in;    // [sampled slots in use]
        std::vector<uint64_t> demand_of;  // [sampled slots]: the last one that used it
        uint64_t misses = 0;
        uint64_t followed = 0;  // tokens
    };
    void use(ExpertKey key);
    void use(Alone& rival, size_t expert, ExpertKey key);

    size_t experts_;
    uint32_t one_in_;
    uint64_t window_;
    std::vector<Alone> rivals_;
    size_t followed_ = 0;
    uint64_t uses_ = 0;       // of sampled experts, older ones count less
    uint64_t until_halving_;  // uses of any experts
    int32_t layer_ = -1;      // of the running demand
    uint64_t demand_ = 1;
};

}  // namespace sluice
