// Source of expert_cache_impl.h: the part that finds transit slots, starts reads and takes them in.
#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>

#include "cache/expert_cache_impl.h"

namespace sluice {

// ---- starting ----------------------------------------------------------------------------------

// Sees that a transit slot is free for the demand's next read; false if that read has to wait.
//
// While other experts of the demand are on their way or not taken yet, they will free their slots:
// then it takes no slot from read-ahead, and at most half of all slots if another drive has
// something to read ahead. Otherwise it may free the slot of an unused prefetch or read-ahead.
bool ExpertCache::Impl::make_transit_slot() {
    const bool more_will_free =
        given_ < ready_.size() || reader_.pending_demand_beside(next_read()) > 0;
    const size_t all = slots_.transit().size();
    const size_t mine = all - slots_.transit_free() - ahead_.slots();
    if (more_will_free && mine >= (all + 1) / 2 && ahead_.on_another_drive(next_read())) {
        return false;
    }
    if (slots_.transit_free() > 0) return true;
    for (uint32_t number : slots_.transit()) {
        const Slot& slot = slots_[number];
        if (slot.state != SlotState::ready) continue;
        if (slot.prefetched) {
            prefetcher_.drop(number);
            return true;
        }
        if (slot.read_ahead && !more_will_free) {
            ahead_.drop(number);
            return true;
        }
    }
    return false;
}

// Gives reads to the reader: the demand's while there are slots, then read-ahead, then prefetches.
void ExpertCache::Impl::start_reads() {
    while (!all_started() && reader_.pending_demand() < queued_max_) {
        const uint32_t number = to_read_[started_];
        Item& item = items_[number];
        if (item.slot == none) {
            if (!make_transit_slot()) break;
            item.slot = slots_.take_transit_slot();
            if (item.entry >= 0) slots_.seat(item.slot, item.entry);
        }
        slots_.start(item.slot, key_of(item), demand_.number);
        slots_[item.slot].item = number;
        reader_.request(key_of(item), slots_.memory(item.slot), Urgency::demand);
        ++started_;
    }
    // Later chunks of the group may still keep this many of the layer's experts.
    const auto lent =
        std::min(static_cast<uint32_t>(tier_.lent().size()), static_cast<uint32_t>(map_.experts()));
    const uint32_t reserve = demand_.more ? lent - kept_count_ : 0;
    ahead_.start(all_started() ? std::nullopt : std::optional(next_read()), reserve);
    if (!all_started()) return;
    prefetcher_.start();
    if (in_chunk_group_) return;
    if (tier_.full()) warm_up_.stop();
    warm_up_.start();
    settle_warm_up();
}

Result<void> ExpertCache::Impl::progress() {
    if (broken_) return tl::unexpected<Error>(*broken_);
    if (!failed_) start_reads();
    if (auto moved = reader_.pump(); !moved) {
        broken_ = moved.error();
        return moved;
    }
    return {};
}

// ---- taking in ---------------------------------------------------------------------------------

Result<void> ExpertCache::Impl::collect_finished() {
    if (reader_.pending() == 0) return {};
    return collect(false);
}

Result<void> ExpertCache::Impl::collect(bool wait) {
    std::array<Arrived, 32> done;
    const auto begin = std::chrono::steady_clock::now();
    auto count = reader_.collect(done, wait);
    if (wait) {
        const auto end = std::chrono::steady_clock::now();
        stats_.wait_s += std::chrono::duration<double>(end - begin).count();
    }
    if (!count) {
        broken_ = count.error();
        return tl::unexpected<Error>(*broken_);
    }
    for (size_t i = 0; i < *count; ++i) arrived(done[i]);
    return {};
}

void ExpertCache::Impl::arrived(const Arrived& one) {
    const uint32_t number = slots_.number_of(one.slot);
    Slot& slot = slots_[number];
    assert(slot.state == SlotState::reading && slot.key == one.key);
    slot.state = SlotState::ready;
    const bool wanted = slot.item != Slot::no_item;
    if (one.error) {  // failed, or a cancelled prefetch
        if (one.urgency == Urgency::prefetch) stats_.bytes_prefetch += one.bytes;
        if (wanted && !failed_) failed_ = one.error;
        lost(number);
        return;
    }
    const bool demanded = one.urgency == Urgency::demand;
    (demanded ? stats_.bytes_demand : stats_.bytes_prefetch) += map_.expert_bytes(one.key);
    if (wanted) {
        ready_.push_back(slot.item);
    } else if (warm_up_.taken(slot)) {
        keep_warm(number);
    } else if (slot.prefetched && prefetcher_.passed(slot)) {
        prefetcher_.drop(number);
    } else if (slot.read_ahead && !ahead_.needed(slot.key.layer)) {
        ahead_.drop(number);
    }
}

void ExpertCache::Impl::keep_warm(uint32_t number) {
    const ExpertKey key = slots_[number].key;
    if (!tier_.place_unasked(key)) return slots_.give_back(number);
    slots_.seat(number, tier_.find(key));
    ++stats_.warmed;
}

void ExpertCache::Impl::settle_warm_up() {
    const std::span<const ExpertKey> read = warm_up_.finished();
    if (!read.empty()) tier_.settle(read);
}

// Takes the slot, and its entry if it has one, from an expert that was not read.
void ExpertCache::Impl::lost(uint32_t number) {
    Slot& slot = slots_[number];
    if (warm_up_.taken(slot)) warm_up_.stop();
    if (slot.cached) {
        tier_.remove(tier_.find(slot.key));
        slots_.vacate(number);
    } else if (slot.prefetched) {
        prefetcher_.drop(number);
    } else if (slot.read_ahead) {
        ahead_.drop(number);
    } else {
        slots_.give_back(number);
    }
}

// ---- giving up ---------------------------------------------------------------------------------

// Gives the demand up: waits for its reads in flight and forgets those that were not started.
Result<void> ExpertCache::Impl::drain() {
    abandoned_ = true;
    demand_.more = false;
    ahead_.forget();
    ahead_.drop_unneeded();
    // All reads, because a demand may have taken over a prefetch that has not been collected yet.
    while (reader_.pending() > 0) {
        if (auto done = collect(true); !done) return done;
    }
    for (; !all_started(); ++started_) {
        const int64_t entry = tier_.find(next_read());
        if (entry >= 0) tier_.remove(entry);
    }
    for (; given_ < ready_.size(); ++given_) {
        const uint32_t number = items_[ready_[given_]].slot;
        slots_[number].item = Slot::no_item;
        if (!slots_[number].cached) slots_.give_back(number);
    }
    given_ = items_.size();
    failed_.reset();
    return {};
}

// Takes back the handles of an abandoned demand; bytes() refuses them from now on.
void ExpertCache::Impl::take_handles_back() {
    for (const Item& item : items_) {
        if (held_ == 0) break;
        const uint32_t number = slots_.find(key_of(item));
        if (number == none || slots_[number].pins == 0) continue;
        Slot& slot = slots_[number];
        held_ -= slot.pins;
        slot.pins = 0;
        if (slot.cached) {
            ++slot.generation;
        } else {
            slots_.give_back(number);
        }
    }
    abandoned_ = false;
}

}  // namespace sluice
