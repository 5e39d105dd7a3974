#include "cache/tier.h"

#include <cassert>

namespace sluice {

Tier::Tier(std::unique_ptr<Policy> policy, uint32_t entries, int32_t layers, int32_t experts)
    : policy_(std::move(policy)),
      experts_(experts),
      entry_of_(static_cast<size_t>(layers) * static_cast<size_t>(experts), -1),
      key_of_(entries),
      protected_(entries, 0) {
    empty_.reserve(entries);
    for (uint32_t entry = entries; entry-- > 0;) empty_.push_back(entry);
}

int64_t Tier::hit(ExpertKey key, bool touch) {
    const int32_t entry = entry_of_[index(key)];
    if (entry < 0) return -1;
    protected_[static_cast<uint32_t>(entry)] = demand_;
    if (touch) policy_->touched(static_cast<uint32_t>(entry), key);
    return entry;
}

Tier::Placed Tier::place(ExpertKey key, bool evict) {
    assert(entry_of_[index(key)] < 0);
    Placed placed;
    if (!empty_.empty()) {
        placed.entry = empty_.back();
        empty_.pop_back();
    } else if (evict && !key_of_.empty()) {
        const auto free_to_go = [this](uint32_t one) { return protected_[one] != demand_; };
        placed.entry = policy_->victim(free_to_go, key);
        if (placed.entry < 0) return placed;
        const auto entry = static_cast<uint32_t>(placed.entry);
        assert(entry < entries() && free_to_go(entry));
        placed.evicted = true;
        placed.out = key_of_[entry];
        policy_->removed(entry);
        entry_of_[index(placed.out)] = -1;
    } else {
        return placed;
    }
    const auto entry = static_cast<uint32_t>(placed.entry);
    key_of_[entry] = key;
    entry_of_[index(key)] = static_cast<int32_t>(entry);
    protected_[entry] = demand_;
    policy_->inserted(entry, key);
    return placed;
}

void Tier::remove(int64_t entry_number) {
    const auto entry = static_cast<uint32_t>(entry_number);
    assert(entry < entries() && key_of_[entry] != ExpertKey{});
    policy_->removed(entry);
    entry_of_[index(key_of_[entry])] = -1;
    key_of_[entry] = ExpertKey{};
    protected_[entry] = 0;
    empty_.push_back(entry);
}

}  // namespace sluice
