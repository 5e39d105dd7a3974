#include "cache/choosing_policy.h"

#include "io/text.h"

namespace sluice {
namespace {

constexpr uint32_t sampled_slots_min = 256, one_in_max = 8;
constexpr uint64_t window_per_slot = 8;  // uses until older misses count half
constexpr uint64_t better_by = 100;      // one use in so many

uint32_t one_in(const PolicyOptions& options) {
    uint32_t out = 1;
    while (out < one_in_max && options.slots / (2 * out) >= sampled_slots_min) out *= 2;
    return out;
}

// Fibonacci hashing: neighbours fall far apart.
bool sampled(size_t expert, uint32_t one_in) {
    return (expert * 0x9e3779b97f4a7c15u >> 40) % one_in == 0;
}

}  // namespace

uint32_t ChoosingPolicy::sampled_slots(const PolicyOptions& options) {
    const size_t all = static_cast<size_t>(options.layers) * static_cast<size_t>(options.experts);
    size_t in = 0;
    for (size_t expert = 0; expert < all; ++expert) in += sampled(expert, one_in(options));
    return static_cast<uint32_t>((uint64_t{options.slots} * in + all / 2) / all);
}

ChoosingPolicy::ChoosingPolicy(std::vector<Rival> rivals, const PolicyOptions& options)
    : experts_(static_cast<size_t>(options.experts)),
      one_in_(one_in(options)),
      window_(window_per_slot * options.slots),
      until_halving_(window_) {
    const uint32_t slots = sampled_slots(options);
    for (Rival& rival : rivals) {
        Alone one{rival.name, std::move(rival.policy), std::move(rival.alone), {}, {}, {}};
        one.slot_of.assign(static_cast<size_t>(options.layers) * experts_, -1);
        one.expert_in.reserve(slots);
        one.demand_of.assign(slots, 0);
        rivals_.push_back(std::move(one));
    }
}

void ChoosingPolicy::inserted(uint32_t slot, ExpertKey key) {
    for (Alone& rival : rivals_) rival.policy->inserted(slot, key);
    use(key);
}

void ChoosingPolicy::touched(uint32_t slot, ExpertKey key) {
    for (Alone& rival : rivals_) rival.policy->touched(slot, key);
    use(key);
}

void ChoosingPolicy::removed(uint32_t slot) {
    for (Alone& rival : rivals_) rival.policy->removed(slot);
}

void ChoosingPolicy::token_passed() {
    ++demand_;
    size_t best = followed_;
    for (size_t i = 0; i < rivals_.size(); ++i) {
        rivals_[i].policy->token_passed();
        rivals_[i].alone->token_passed();
        if (rivals_[i].misses < rivals_[best].misses) best = i;
    }
    if (rivals_[best].misses + uses_ / better_by < rivals_[followed_].misses) followed_ = best;
    ++rivals_[followed_].followed;
}

int64_t ChoosingPolicy::victim(const std::function<bool(uint32_t slot)>& evictable,
                               ExpertKey wanted) {
    return rivals_[followed_].policy->victim(evictable, wanted);
}

std::string ChoosingPolicy::report() const {
    std::string out;
    for (const Alone& rival : rivals_) {
        out += cat(out.empty() ? "" : ", ", rival.name, " ", rival.followed);
    }
    return out;
}

void ChoosingPolicy::use(ExpertKey key) {
    if (key.layer != layer_) ++demand_;
    layer_ = key.layer;
    if (until_halving_-- == 0) {
        until_halving_ = window_;
        uses_ /= 2;
        for (Alone& rival : rivals_) rival.misses /= 2;
    }
    const size_t expert =
        static_cast<size_t>(key.layer) * experts_ + static_cast<size_t>(key.expert);
    if (!sampled(expert, one_in_)) return;
    ++uses_;
    for (Alone& rival : rivals_) use(rival, expert, key);
}

void ChoosingPolicy::use(Alone& rival, size_t expert, ExpertKey key) {
    int64_t slot = rival.slot_of[expert];
    if (slot >= 0) {
        rival.alone->touched(static_cast<uint32_t>(slot), key);
        rival.demand_of[static_cast<size_t>(slot)] = demand_;
        return;
    }
    ++rival.misses;
    if (rival.expert_in.size() < rival.demand_of.size()) {
        slot = static_cast<int64_t>(rival.expert_in.size());
        rival.expert_in.push_back(expert);
    } else {
        slot =
            rival.alone->victim([&](uint32_t one) { return rival.demand_of[one] != demand_; }, key);
        if (slot < 0) return;
        rival.alone->removed(static_cast<uint32_t>(slot));
        rival.slot_of[rival.expert_in[static_cast<size_t>(slot)]] = -1;
        rival.expert_in[static_cast<size_t>(slot)] = expert;
    }
    rival.slot_of[expert] = static_cast<int32_t>(slot);
    rival.demand_of[static_cast<size_t>(slot)] = demand_;
    rival.alone->inserted(static_cast<uint32_t>(slot), key);
}

}  // namespace sluice
