// Orders of cache slots, for policies. Fixed size, no allocation after construction.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// Doubly linked lists over slot numbers; a slot is in at most one list. Front is the oldest.
class SlotLists {
 public:
    SlotLists(uint32_t slots, uint32_t lists)
        : next_(slots + lists), previous_(slots + lists), size_(lists, 0), slots_(slots) {
        for (uint32_t list = 0; list < lists; ++list) {
            next_[slots + list] = previous_[slots + list] = slots + list;
        }
    }
    void push_back(uint32_t list, uint32_t slot) {
        const uint32_t head = slots_ + list;
        previous_[slot] = previous_[head];
        next_[slot] = head;
        next_[previous_[head]] = slot;
        previous_[head] = slot;
        ++size_[list];
    }
    void remove(uint32_t list, uint32_t slot) {
        next_[previous_[slot]] = next_[slot];
        previous_[next_[slot]] = previous_[slot];
        --size_[list];
    }
    uint32_t size(uint32_t list) const { return size_[list]; }
    int64_t front(uint32_t list) const {
        const uint32_t slot = next_[slots_ + list];
        return slot < slots_ ? int64_t{slot} : -1;
    }
    // The oldest slot of `list` for which `wanted` holds, -1 if none.
    template <class Wanted>
    int64_t oldest(uint32_t list, const Wanted& wanted) const {
        for (uint32_t slot = next_[slots_ + list]; slot < slots_; slot = next_[slot]) {
            if (wanted(slot)) return slot;
        }
        return -1;
    }

 private:
    std::vector<uint32_t> next_, previous_;  // [slots + lists]: the lists' heads are at the end
    std::vector<uint32_t> size_;
    uint32_t slots_;
};

// Slots by age with access by rank: the r-th oldest, and the rank of a slot, in O(log slots). A
// Fenwick tree counts the living positions of a growing sequence; when the sequence is used up it
// is packed again.
class AgeRanks {
 public:
    explicit AgeRanks(uint32_t slots) : position_(slots, none) {
        positions_ = 64;
        while (positions_ < 4 * static_cast<uint64_t>(slots)) positions_ *= 2;
        slot_at_.assign(positions_, none);
        tree_.assign(positions_ + 1, 0);
    }
    void push_newest(uint32_t slot) {
        if (next_ == positions_) pack();
        position_[slot] = next_;
        slot_at_[next_] = slot;
        add(next_, 1);
        ++next_;
        ++count_;
    }
    void remove(uint32_t slot) {
        slot_at_[position_[slot]] = none;
        add(position_[slot], -1);
        position_[slot] = none;
        --count_;
    }
    uint32_t count() const { return count_; }
    // rank 0 is the oldest; requires rank < count().
    uint32_t at(uint32_t rank) const {
        uint32_t place = 0;
        uint32_t left = rank;
        for (uint32_t step = positions_; step > 0; step /= 2) {
            if (place + step <= positions_ && tree_[place + step] <= left) {
                place += step;
                left -= tree_[place];
            }
        }
        return slot_at_[place];
    }
    uint32_t rank(uint32_t slot) const {
        uint32_t older = 0;
        for (uint32_t i = position_[slot]; i > 0; i -= i & (0 - i)) older += tree_[i];
        return older;
    }

 private:
    static constexpr uint32_t none = UINT32_MAX;

    void add(uint32_t position, int32_t change) {
        for (uint32_t i = position + 1; i <= positions_; i += i & (0 - i)) {
            tree_[i] += static_cast<uint32_t>(change);
        }
    }
    void pack() {
        uint32_t to = 0;
        for (uint32_t from = 0; from < next_; ++from) {
            const uint32_t slot = slot_at_[from];
            if (slot == none) continue;
            slot_at_[from] = none;
            slot_at_[to] = slot;
            position_[slot] = to++;
        }
        next_ = to;
        for (uint32_t i = 1; i <= positions_; ++i) tree_[i] = i <= to ? 1 : 0;
        for (uint32_t i = 1; i <= positions_; ++i) {
            const uint32_t parent = i + (i & (0 - i));
            if (parent <= positions_) tree_[parent] += tree_[i];
        }
    }

    uint32_t positions_;  // a power of two
    uint32_t next_ = 0;
    uint32_t count_ = 0;
    std::vector<uint32_t> position_;  // [slots]
    std::vector<uint32_t> slot_at_;   // [positions]
    std::vector<uint32_t> tree_;      // [positions + 1]
};

}  // namespace sluice
