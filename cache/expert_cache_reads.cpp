#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

#include "cache/expert_cache_impl.h"
#include "io/clock.h"

namespace sluice {

// ---- guesses -----------------------------------------------------------------------------------

void ExpertCache::Impl::note_guesses(int32_t layer, std::span<const int32_t> guesses,
                                     uint32_t count) {
    judged_layer_ = layer;
    judged_.clear();
    for (int32_t expert : guesses) {
        const ExpertKey key{layer, expert};
        if (!map_.has(key)) continue;
        if (judged_.size() < guesses_max) judged_.push_back(expert);
        const bool waits = std::any_of(guesses_.begin(), guesses_.end(),
                                       [&](const Guess& guess) { return guess.key == key; });
        if (count == 0 || waits || slots_.find(key) != none) continue;
        if (guesses_.size() == guesses_max) continue;
        guesses_.push_back({key, demand_});
        --count;
    }
}

// Whether a guess has outlived its use: its layer is being computed without it, or never came.
bool ExpertCache::Impl::passed(ExpertKey key, uint64_t demand) const {
    return key.layer == layer_ || demand_ - demand >= static_cast<uint64_t>(map_.layers());
}

void ExpertCache::Impl::drop_passed_guesses() {
    std::erase_if(guesses_,
                  [this](const Guess& guess) { return passed(guess.key, guess.made_at); });
    for (uint32_t number : slots_.transit()) {
        const Slot& slot = slots_[number];
        if (!slot.guessed || !passed(slot.key, slot.read_at)) continue;
        if (slot.state == SlotState::ready) {
            drop_guess(number);
        } else {
            reader_.cancel(slot.key);  // comes back through arrived()
        }
    }
}

// How long a layer of a decode step takes from its last expert read to the next layer's demand,
// for guesses: learned from this demand, and told for the next. After other demands it is not
// known.
void ExpertCache::Impl::learn_pause(int32_t layer_before, bool decode) {
    Pause& mine = pauses_[static_cast<size_t>(layer_)];
    const auto quiet = reader_.quiet_since();
    if (decode && decoding_ && layer_ == layer_before + 1 && quiet) {
        mine.add(to_seconds(ring_.now() - *quiet));
    }
    decoding_ = decode;
}

void ExpertCache::Impl::tell_pause() {
    const size_t next = static_cast<size_t>(layer_) + 1;
    const bool known = decoding_ && next < pauses_.size() && pauses_[next].count > 0;
    reader_.expect_demand_after(known ? pauses_[next].mean
                                      : std::numeric_limits<double>::infinity());
}

void ExpertCache::Impl::drop_guess(uint32_t number) {
    ++stats_.prefetch_wasted;
    slots_.give_back(number);
}

void ExpertCache::Impl::judge_guesses() {
    if (judged_layer_ == layer_) {
        stats_.guesses += judged_.size();
        for (int32_t expert : judged_) {
            if (asked_at_[static_cast<size_t>(expert)] == demand_) ++stats_.guesses_right;
        }
    }
    judged_layer_ = -1;
}

// When its drives have no demand left, and only into a slot that leaves the next demand enough of
// them to keep the drives busy.
void ExpertCache::Impl::start_guess() {
    for (auto guess = guesses_.begin();
         guess != guesses_.end() && slots_.transit_spare() > map_.tuning().in_flight_max;) {
        const ExpertKey key = guess->key;
        const bool there = slots_.find(key) != none;
        const bool busy = reader_.pending_demand_beside(key) > 0 ||
                          reader_.pending_beside(key) >= ExpertReader::prefetches_max();
        if (!there && busy) {
            ++guess;
            continue;
        }
        guess = guesses_.erase(guess);
        if (there) continue;
        const uint32_t number = slots_.take_transit_slot();
        slots_.start(number, key, demand_);
        slots_[number].guessed = true;
        ++stats_.prefetch_started;
        reader_.request(key, slots_.memory(number), Urgency::prefetch);
    }
}

// ---- the sweep to come -------------------------------------------------------------------------

// So many that one is always waiting when another is finished; more could not be called back. What
// later chunks may still keep of this layer finds its slots. While the demand waits for slots, only
// a drive that it does not use goes on, into half of them.
void ExpertCache::Impl::start_ahead() {
    const bool demand_waits = started_ < to_read_.size();
    if (demand_waits && !ahead_elsewhere()) return;
    const auto lent =
        std::min(static_cast<uint32_t>(tier_.lent().size()), static_cast<uint32_t>(map_.experts()));
    const uint32_t reserve = more_ ? lent - kept_count_ : 0;
    const uint32_t in_flight = map_.tuning().in_flight_max;
    const uint32_t begun_max = in_flight + (in_flight + 1) / 2;
    while (ahead_begun_ < ahead_.size() && slots_.transit_free() > reserve) {
        const ExpertKey key{ahead_layer_, ahead_[ahead_begun_]};
        if (reader_.pending_demand_beside(key) >= begun_max) return;
        if (demand_waits && ahead_slots_ >= slots_.transit().size() / 2) return;
        ++ahead_begun_;
        if (slots_.find(key) != none) continue;
        const uint32_t number = slots_.take_transit_slot();
        slots_.start(number, key, demand_);
        slots_[number].ahead = true;
        ++ahead_slots_;
        ++stats_.ahead_started;
        reader_.request(key, slots_.memory(number), Urgency::demand);
    }
}

// Whether there is something to read ahead from a drive that the demand does not use.
bool ExpertCache::Impl::ahead_elsewhere() const {
    return ahead_begun_ < ahead_.size() && started_ < to_read_.size() &&
           !map_.share_drive({ahead_layer_, ahead_[ahead_begun_]},
                             key_of(items_[to_read_[started_]]));
}

void ExpertCache::Impl::forget_ahead() {
    ahead_layer_ = -1;
    ahead_.clear();
    ahead_begun_ = 0;
}

// Of no use any more; what is still being read is dropped when it arrives.
void ExpertCache::Impl::drop_ahead() {
    if (ahead_slots_ == 0) return;
    for (uint32_t number : slots_.transit()) {
        const Slot& slot = slots_[number];
        const bool ready = slot.ahead && slot.state == SlotState::ready;
        if (ready && !ahead_of_use(slot.key.layer)) drop_one_ahead(number);
    }
}

void ExpertCache::Impl::drop_one_ahead(uint32_t number) {
    --ahead_slots_;
    ++stats_.ahead_dropped;
    slots_.give_back(number);
}

// ---- reads -------------------------------------------------------------------------------------

// A free transit slot for the demand. While others of it are on their way or not taken yet, and so
// will leave theirs, it takes none from a sweep for later, and no more than half of all where
// another drive has work for such a sweep. Else, if need be, that of a guess or a sweep for later.
bool ExpertCache::Impl::make_transit_slot() {
    const bool coming = given_ < ready_.size() ||
                        reader_.pending_demand_beside(key_of(items_[to_read_[started_]])) > 0;
    const size_t all = slots_.transit().size();
    const size_t mine = all - slots_.transit_free() - ahead_slots_;
    if (coming && mine >= (all + 1) / 2 && ahead_elsewhere()) return false;
    if (slots_.transit_free() > 0) return true;
    for (uint32_t number : slots_.transit()) {
        const Slot& slot = slots_[number];
        if (slot.state != SlotState::ready || !(slot.guessed || slot.ahead)) continue;
        if (slot.ahead && coming) continue;
        if (slot.guessed) {
            drop_guess(number);
        } else {
            drop_one_ahead(number);
        }
        return true;
    }
    return false;
}

// Hands reads to the reader: the demand's as far as there are slots, then those of a sweep to come,
// then guesses.
void ExpertCache::Impl::fill() {
    while (started_ < to_read_.size() && reader_.pending_demand() < read_ahead_) {
        const uint32_t number = to_read_[started_];
        Item& item = items_[number];
        if (item.slot == none) {
            if (!make_transit_slot()) break;
            item.slot = slots_.take_transit_slot();
            if (item.entry >= 0) slots_.seat(item.slot, item.entry);
        }
        slots_.start(item.slot, key_of(item), demand_);
        slots_[item.slot].item = number;
        reader_.request(key_of(item), slots_.memory(item.slot), Urgency::demand);
        ++started_;
    }
    start_ahead();
    if (started_ < to_read_.size()) return;
    start_guess();
}

Result<void> ExpertCache::Impl::collect(bool wait) {
    std::array<Arrived, 32> done;
    const auto begin = Clock::now();
    auto count = reader_.collect(done, wait);
    if (wait) {
        const auto end = Clock::now();
        stats_.wait_s += to_seconds(end - begin);
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
    if (one.error) {
        if (one.urgency == Urgency::prefetch) stats_.bytes_prefetch += one.bytes;
        if (wanted && !failed_) failed_ = one.error;
        lost(number);
        return;
    }
    const bool demanded = one.urgency == Urgency::demand;
    (demanded ? stats_.bytes_demand : stats_.bytes_prefetch) += map_.expert_bytes(one.key);
    if (wanted) {
        ready_.push_back(slot.item);
    } else if (slot.guessed && passed(slot.key, slot.read_at)) {
        drop_guess(number);
    } else if (slot.ahead && !ahead_of_use(slot.key.layer)) {
        drop_one_ahead(number);
    }
}

// Takes the slot away from an expert that could not be read, entry included.
void ExpertCache::Impl::lost(uint32_t number) {
    Slot& slot = slots_[number];
    if (slot.cached) {
        tier_.remove(tier_.find(slot.key));
        slots_.vacate(number);
    } else if (slot.guessed) {
        drop_guess(number);
    } else if (slot.ahead) {
        drop_one_ahead(number);
    } else {
        slots_.give_back(number);
    }
}

// Gives the demand up: waits for its reads in flight and forgets what was not started.
Result<void> ExpertCache::Impl::drain() {
    abandoned_ = true;
    more_ = false;
    forget_ahead();
    drop_ahead();
    while (reader_.pending() > 0) {  // a guess that the demand took over may be finished already
        if (auto done = collect(true); !done) return done;
    }
    for (; started_ < to_read_.size(); ++started_) {
        const int64_t entry = tier_.find(key_of(items_[to_read_[started_]]));
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

// Those of an abandoned demand; what they name can no longer be reached through them.
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

Result<void> ExpertCache::Impl::progress() {
    if (broken_) return tl::unexpected<Error>(*broken_);
    if (!failed_) fill();
    if (auto moved = reader_.pump(); !moved) {
        broken_ = moved.error();
        return moved;
    }
    return {};
}

}  // namespace sluice
