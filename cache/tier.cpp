#include "cache/tier.h"

#include <cassert>

namespace sluice {

Tier::Tier(std::unique_ptr<Policy> policy, uint32_t entries, int32_t layers, int32_t experts)
    : policy_(std::move(policy)),
      experts_(experts),
      entry_of_(static_cast<size_t>(layers) * static_cast<size_t>(experts), -1),
      key_of_(entries),
      protected_(entries, 0),
      touched_(entries, 0) {
    empty_.reserve(entries);
    lent_.reserve(lendable());
    for (uint32_t entry = entries; entry-- > 0;) empty_.push_back(entry);
}

int64_t Tier::hit(ExpertKey key, bool touch) {
    const int32_t entry = entry_of_[index(key)];
    if (entry < 0) return -1;
    protected_[static_cast<uint32_t>(entry)] = demand_;
    if (touch) {
        policy_->touched(static_cast<uint32_t>(entry), key);
        touched_[static_cast<uint32_t>(entry)] = demand_;
    }
    return entry;
}

Tier::Placed Tier::place(ExpertKey key, bool evict) {
    assert(entry_of_[index(key)] < 0);
    Placed placed;
    if (!empty_.empty()) {
        placed.entry = empty_.back();
        empty_.pop_back();
    } else if (evict && !key_of_.empty()) {
        const auto evictable = [this](uint32_t one) { return protected_[one] != demand_; };
        placed.entry = policy_->victim(evictable, key);
        if (placed.entry < 0) return placed;
        const auto entry = static_cast<uint32_t>(placed.entry);
        assert(entry < entries() && evictable(entry));
        placed.evicted = true;
        placed.out = key_of_[entry];
        vacate(entry);
    } else {
        return placed;
    }
    const auto entry = static_cast<uint32_t>(placed.entry);
    key_of_[entry] = key;
    entry_of_[index(key)] = static_cast<int32_t>(entry);
    protected_[entry] = touched_[entry] = demand_;
    policy_->inserted(entry, key);
    return placed;
}

bool Tier::place_unasked(ExpertKey key) {
    const Placed placed = place(key, false);
    if (placed.entry < 0) return false;
    const auto entry = static_cast<uint32_t>(placed.entry);
    protected_[entry] = touched_[entry] = 0;
    return true;
}

void Tier::settle(std::span<const ExpertKey> by_value) {
    const std::vector<ExpertKey> asked = by_recency();
    const auto touch = [this](const ExpertKey& key, bool was_asked) {
        const int32_t entry = entry_of_[index(key)];
        if (entry < 0 || (touched_[static_cast<uint32_t>(entry)] > 0) != was_asked) return;
        policy_->touched(static_cast<uint32_t>(entry), key);
    };
    std::for_each(by_value.rbegin(), by_value.rend(),
                  [&](const ExpertKey& key) { touch(key, false); });
    std::for_each(asked.rbegin(), asked.rend(), [&](const ExpertKey& key) { touch(key, true); });
}

void Tier::remove(int64_t entry_number) {
    const auto entry = static_cast<uint32_t>(entry_number);
    assert(entry < entries() && key_of_[entry] != ExpertKey{});
    vacate(entry);
    empty_.push_back(entry);
}

void Tier::vacate(uint32_t entry) {
    policy_->removed(entry);
    entry_of_[index(key_of_[entry])] = -1;
    key_of_[entry] = ExpertKey{};
    protected_[entry] = touched_[entry] = 0;
}

std::vector<ExpertKey> Tier::by_recency() const {
    std::vector<uint32_t> order;
    for (uint32_t entry = 0; entry < entries(); ++entry) {
        if (key_of_[entry] != ExpertKey{}) order.push_back(entry);
    }
    std::stable_sort(order.begin(), order.end(),
                     [this](uint32_t a, uint32_t b) { return touched_[a] > touched_[b]; });
    std::vector<ExpertKey> keys;
    for (uint32_t entry : order) keys.push_back(key_of_[entry]);
    return keys;
}

uint32_t Tier::lend() {
    uint32_t evicted = 0;
    while (lent_.size() < lendable()) {
        if (!empty_.empty()) {
            lent_.push_back(empty_.back());
            empty_.pop_back();
            continue;
        }
        const auto layer = static_cast<int32_t>(evicted % layers());
        const int64_t victim = policy_->victim([](uint32_t) { return true; }, {layer, 0});
        assert(victim >= 0);
        vacate(static_cast<uint32_t>(victim));
        lent_.push_back(static_cast<uint32_t>(victim));
        ++evicted;
    }
    return evicted;
}

void Tier::take_back() {
    for (; !lent_.empty(); lent_.pop_back()) empty_.push_back(lent_.back());
}

// The first chunk fills the empty entries, so the later ones find all of them in use.
bool Tier::lending_pays(uint32_t chunks) const {
    if (chunks < 2) return false;
    const uint64_t all = entry_of_.size(), later = chunks - 1;
    const auto a_layer = static_cast<uint64_t>(experts_);
    const uint64_t lent = lendable(), empty = empty_.size(), full = entries() - empty;
    const uint64_t evicted = lent - std::min(lent, empty);
    const uint64_t kept = std::min(a_layer, lent + (entries() - lent) / layers());
    const uint64_t apart = all - full + later * (all - entries());
    const uint64_t grouped = all - (full - evicted) + later * layers() * (a_layer - kept);
    return grouped < apart;
}

}  // namespace sluice
