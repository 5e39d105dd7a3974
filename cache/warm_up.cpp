#include "cache/warm_up.h"

#include <algorithm>

namespace sluice {

void WarmUp::add(std::span<const ExpertKey> keys) {
    all_.clear();
    for (const ExpertKey& key : keys) {
        if (map_.has(key)) all_.push_back(key);
    }
    left_.assign(all_.rbegin(), all_.rend());
    begun_ = true;
}

std::span<const ExpertKey> WarmUp::finished() {
    if (!begun_ || running()) return {};
    begun_ = false;
    return all_;
}

bool WarmUp::may_start(ExpertKey key) const {
    return reader_.pending_demand_beside(key) == 0 &&
           reader_.pending_beside(key) < ExpertReader::prefetches_max();
}

// The slots left spare are enough for the next demand to keep the drives busy.
void WarmUp::start() {
    size_t passed = 0;  // experts whose drive is busy
    while (passed < std::min(window, left_.size()) &&
           slots_.transit_spare() > map_.tuning().in_flight_max) {
        const auto at = left_.end() - 1 - static_cast<std::ptrdiff_t>(passed);
        const ExpertKey key = *at;
        const bool there = slots_.find(key) != SlotPool::none;
        if (!there && !may_start(key)) {
            ++passed;
            continue;
        }
        left_.erase(at);
        if (there) continue;
        const uint32_t number = slots_.take_transit_slot();
        slots_.start(number, key, demand_.number);
        slots_[number].warming = true;
        ++in_flight_;
        reader_.request(key, slots_.memory(number), Urgency::prefetch);
    }
}

bool WarmUp::taken(Slot& slot) {
    if (!slot.warming) return false;
    slot.warming = false;
    --in_flight_;
    return true;
}

}  // namespace sluice
