// SlotPool: the slots of the expert cache, their memory, what each holds, and which are transit
// slots.
//
// Every slot either belongs to an entry (cached) or is a transit slot. An entry has no memory until
// it is first filled, so while the cache is empty all slots are transit slots; from then on seat()
// exchanges the roles of two slots, and no bytes move. Taking a slot away from its expert
// increments its generation, so that older handles no longer match.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>
#include <vector>

#include "io/checkpoint/expert_map.h"

namespace sluice {

enum class SlotState : uint8_t { empty, reading, ready };

struct Slot {
    static constexpr uint32_t no_item = UINT32_MAX;

    ExpertKey key;
    uint64_t generation = 0;
    uint64_t read_at = 0;     // number of the demand that was running when its read started
    uint32_t pins = 0;        // handles held
    uint32_t item = no_item;  // of the running demand, until it is given
    SlotState state = SlotState::empty;
    bool cached = false;      // belongs to an entry of the tier
    bool prefetched = false;  // for a guess in decode; not used yet
    bool read_ahead = false;  // for a prompt; not used yet
    bool warming = false;     // for a warm-up; in flight
};

class SlotPool {
 public:
    static constexpr uint32_t none = UINT32_MAX;

    SlotPool(std::span<std::byte> memory, const ExpertMap& map, uint32_t cache_slots,
             uint32_t transit_slots, bool poison);

    uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }
    Slot& operator[](uint32_t number) { return slots_[number]; }
    const Slot& operator[](uint32_t number) const { return slots_[number]; }
    std::byte* memory(uint32_t number) const { return memory_.data() + number * slot_bytes_; }
    uint32_t number_of(const std::byte* memory) const {
        return static_cast<uint32_t>(static_cast<uint64_t>(memory - memory_.data()) / slot_bytes_);
    }
    // The slot that holds `key` or that it is being read into; or none.
    uint32_t find(ExpertKey key) const { return slot_of_[index(key)]; }
    // The entry's slot; none while it has no memory.
    uint32_t of_entry(int64_t entry) const { return slot_of_entry_[static_cast<size_t>(entry)]; }

    // The transit slots, in no particular order, and how many of them are empty and not taken.
    std::span<const uint32_t> transit() const { return transit_; }
    uint32_t transit_free() const { return static_cast<uint32_t>(transit_free_.size()); }
    // How many of the free ones no entry without memory will need.
    uint32_t transit_spare() const {
        return transit_free() - std::min(transit_free(), bare_entries_);
    }
    uint32_t take_transit_slot();     // requires transit_free() > 0
    void give_back(uint32_t number);  // vacates a transit slot

    // A read into the empty slot is about to start.
    void start(uint32_t number, ExpertKey key, uint64_t demand);
    // The slot becomes empty; its role does not change.
    void vacate(uint32_t number);
    // The transit slot becomes the entry's; the entry's (empty) slot, if it has one, becomes a free
    // transit slot.
    void seat(uint32_t number, int64_t entry);
    // The entry's (empty) slot, if it has one, becomes a free transit slot.
    void unseat(int64_t entry);

 private:
    size_t index(ExpertKey key) const {
        return static_cast<size_t>(key.layer) * experts_ + static_cast<size_t>(key.expert);
    }

    std::span<std::byte> memory_;
    uint64_t slot_bytes_;
    size_t experts_;
    bool poison_;
    std::vector<Slot> slots_;              // by place in memory
    std::vector<uint32_t> slot_of_;        // [layers * experts]
    std::vector<uint32_t> slot_of_entry_;  // [cache_slots]
    std::vector<uint32_t> transit_, transit_free_;
    std::vector<uint32_t> place_in_transit_;  // [slots]: where in transit_
    uint32_t bare_entries_;                   // without memory
};

}  // namespace sluice
