#include "cache/read_ahead.h"

#include <algorithm>

namespace sluice {

std::tuple<uintptr_t, uint64_t, uint64_t> place_in_file(const ExpertMap& map, ExpertKey key) {
    return {reinterpret_cast<uintptr_t>(&map.file(key)), map.plan(key).reads.front().offset,
            map.range(key, w1_codes).offset};
}

ReadAhead::ReadAhead(const ExpertMap& map, ExpertReader& reader, SlotPool& slots,
                     const RunningDemand& demand, CacheStats& stats)
    : map_(map), reader_(reader), slots_(slots), demand_(demand), stats_(stats) {
    experts_.reserve(static_cast<size_t>(map.experts()));
}

void ReadAhead::announce(int32_t layer, std::span<const int32_t> experts) {
    forget();
    layer_ = layer;
    drop_unneeded();
    for (int32_t expert : experts) {
        if (map_.has({layer, expert})) experts_.push_back(expert);
    }
    std::sort(experts_.begin(), experts_.end(), [&](int32_t a, int32_t b) {
        return place_in_file(map_, {layer, a}) < place_in_file(map_, {layer, b});
    });
}

void ReadAhead::forget() {
    layer_ = -1;
    experts_.clear();
    started_ = 0;
}

// At most so many are started that one is always waiting when another finishes, because a demand
// cannot overtake them. While the demand waits for slots, only a drive that it does not use reads
// ahead, into at most half of the slots.
void ReadAhead::start(std::optional<ExpertKey> waiting, uint32_t reserve) {
    if (waiting && !on_another_drive(*waiting)) return;
    const uint32_t in_flight = map_.tuning().in_flight_max;
    const uint32_t started_max = in_flight + (in_flight + 1) / 2;
    while (!all_started() && slots_.transit_free() > reserve) {
        const ExpertKey key{layer_, experts_[started_]};
        if (reader_.pending_demand_beside(key) >= started_max) return;
        if (waiting && slots_in_use_ >= slots_.transit().size() / 2) return;
        ++started_;
        if (slots_.find(key) != SlotPool::none) continue;
        const uint32_t number = slots_.take_transit_slot();
        slots_.start(number, key, demand_.number);
        slots_[number].read_ahead = true;
        ++slots_in_use_;
        ++stats_.ahead_started;
        reader_.request(key, slots_.memory(number), Urgency::demand);
    }
}

bool ReadAhead::on_another_drive(ExpertKey waiting) const {
    return !all_started() && !map_.share_drive({layer_, experts_[started_]}, waiting);
}

void ReadAhead::taken(Slot& slot) {
    if (!slot.read_ahead) return;
    slot.read_ahead = false;
    --slots_in_use_;
}

void ReadAhead::drop_unneeded() {
    if (slots_in_use_ == 0) return;
    for (uint32_t number : slots_.transit()) {
        const Slot& slot = slots_[number];
        const bool ready = slot.read_ahead && slot.state == SlotState::ready;
        if (ready && !needed(slot.key.layer)) drop(number);
    }
}

void ReadAhead::drop(uint32_t number) {
    --slots_in_use_;
    ++stats_.ahead_dropped;
    slots_.give_back(number);
}

}  // namespace sluice
