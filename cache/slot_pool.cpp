#include "cache/slot_pool.h"

namespace sluice {

SlotPool::SlotPool(std::span<std::byte> memory, const ExpertMap& map, uint32_t cache_slots,
                   uint32_t transit_slots, bool poison)
    : memory_(memory),
      slot_bytes_(map.slot_bytes()),
      experts_(static_cast<size_t>(map.experts())),
      poison_(poison),
      slots_(cache_slots + transit_slots),
      slot_of_(static_cast<size_t>(map.layers()) * experts_, none),
      slot_of_entry_(cache_slots, none),
      place_in_transit_(slots_.size()),
      bare_entries_(cache_slots) {
    transit_.reserve(slots_.size());
    transit_free_.reserve(slots_.size());
    for (uint32_t slot = size(); slot-- > 0;) {
        place_in_transit_[slot] = static_cast<uint32_t>(transit_.size());
        transit_.push_back(slot);
    }
    transit_free_ = transit_;
}

uint32_t SlotPool::take_transit_slot() {
    const uint32_t number = transit_free_.back();
    transit_free_.pop_back();
    return number;
}

void SlotPool::give_back(uint32_t number) {
    assert(!slots_[number].cached);
    slots_[number].prefetched = slots_[number].read_ahead = false;
    vacate(number);
    transit_free_.push_back(number);
}

void SlotPool::start(uint32_t number, ExpertKey key, uint64_t demand) {
    Slot& slot = slots_[number];
    assert(slot.state == SlotState::empty && find(key) == none);
    slot.key = key;
    slot.state = SlotState::reading;
    slot.read_at = demand;
    slot_of_[index(key)] = number;
}

void SlotPool::vacate(uint32_t number) {
    Slot& slot = slots_[number];
    assert(slot.pins == 0 && slot.state != SlotState::reading);
    if (slot.state == SlotState::empty) return;
    slot_of_[index(slot.key)] = none;
    slot.key = ExpertKey{};
    slot.state = SlotState::empty;
    slot.item = Slot::no_item;
    ++slot.generation;
    if (poison_) std::memset(memory(number), 0xff, slot_bytes_);
}

void SlotPool::seat(uint32_t number, int64_t entry) {
    uint32_t& of_entry = slot_of_entry_[static_cast<size_t>(entry)];
    assert(!slots_[number].cached);
    slots_[number].cached = true;
    const uint32_t place = place_in_transit_[number];
    if (of_entry == none) {
        --bare_entries_;
        transit_[place] = transit_.back();
        transit_.pop_back();
    } else {
        assert(slots_[of_entry].state == SlotState::empty);
        slots_[of_entry].cached = false;
        transit_[place] = of_entry;
        transit_free_.push_back(of_entry);
    }
    if (place < transit_.size()) place_in_transit_[transit_[place]] = place;
    of_entry = number;
}

void SlotPool::unseat(int64_t entry) {
    uint32_t& of_entry = slot_of_entry_[static_cast<size_t>(entry)];
    if (of_entry == none) return;
    assert(slots_[of_entry].state == SlotState::empty);
    slots_[of_entry].cached = false;
    place_in_transit_[of_entry] = static_cast<uint32_t>(transit_.size());
    transit_.push_back(of_entry);
    transit_free_.push_back(of_entry);
    of_entry = none;
    ++bare_entries_;
}

}  // namespace sluice
