#include "cache/prefetcher.h"

#include <chrono>
#include <limits>

namespace sluice {

Prefetcher::Prefetcher(const ExpertMap& map, const ReadRing& ring, ExpertReader& reader,
                       SlotPool& slots, const RunningDemand& demand, CacheStats& stats)
    : map_(map),
      ring_(ring),
      reader_(reader),
      slots_(slots),
      demand_(demand),
      stats_(stats),
      pauses_(static_cast<size_t>(map.layers())) {
    queue_.reserve(guesses_max);
    judged_.reserve(guesses_max);
}

void Prefetcher::expect(int32_t layer, std::span<const int32_t> guesses) {
    judged_layer_ = layer;
    judged_.clear();
    for (int32_t expert : guesses) {
        const bool room = judged_.size() < guesses_max;
        if (room && map_.has({layer, expert})) judged_.push_back(expert);
    }
}

void Prefetcher::add(int32_t layer, std::span<const int32_t> guesses, uint32_t count) {
    for (int32_t expert : guesses) {
        const ExpertKey key{layer, expert};
        if (!map_.has(key)) continue;
        const bool queued = std::any_of(queue_.begin(), queue_.end(),
                                        [&](const Guess& guess) { return guess.key == key; });
        if (count == 0 || queued || slots_.find(key) != SlotPool::none) continue;
        if (queue_.size() == guesses_max) continue;
        queue_.push_back({key, demand_.number});
        --count;
    }
}

// The slots left spare are enough for the next demand to keep the drives busy.
void Prefetcher::start() {
    for (auto guess = queue_.begin();
         guess != queue_.end() && slots_.transit_spare() > map_.tuning().in_flight_max;) {
        const ExpertKey key = guess->key;
        const bool there = slots_.find(key) != SlotPool::none;
        const bool busy = reader_.pending_demand_beside(key) > 0 ||
                          reader_.pending_beside(key) >= ExpertReader::prefetches_max();
        if (!there && busy) {
            ++guess;
            continue;
        }
        guess = queue_.erase(guess);
        if (there) continue;
        const uint32_t number = slots_.take_transit_slot();
        slots_.start(number, key, demand_.number);
        slots_[number].prefetched = true;
        ++stats_.prefetch_started;
        reader_.request(key, slots_.memory(number), Urgency::prefetch);
    }
}

void Prefetcher::used(Slot& slot, bool late) {
    if (!slot.prefetched) return;
    slot.prefetched = false;
    ++stats_.prefetch_used;
    if (late) ++stats_.late_prefetches;
}

void Prefetcher::judge(std::span<const int32_t> experts) {
    if (judged_layer_ == demand_.layer) {
        stats_.guesses += judged_.size();
        for (int32_t guess : judged_) {
            if (std::find(experts.begin(), experts.end(), guess) != experts.end()) {
                ++stats_.guesses_right;
            }
        }
    }
    judged_layer_ = -1;
}

bool Prefetcher::passed(ExpertKey key, uint64_t demand) const {
    return key.layer == demand_.layer ||
           demand_.number - demand >= static_cast<uint64_t>(map_.layers());
}

void Prefetcher::drop_passed() {
    std::erase_if(queue_, [this](const Guess& guess) { return passed(guess.key, guess.made_at); });
    for (uint32_t number : slots_.transit()) {
        const Slot& slot = slots_[number];
        if (!slot.prefetched || !passed(slot)) continue;
        if (slot.state == SlotState::ready) {
            drop(number);
        } else {
            reader_.cancel(slot.key);
        }
    }
}

void Prefetcher::drop(uint32_t number) {
    ++stats_.prefetch_wasted;
    slots_.give_back(number);
}

void Prefetcher::learn_pause(int32_t layer_before, bool decode) {
    Pause& mine = pauses_[static_cast<size_t>(demand_.layer)];
    const auto quiet = reader_.quiet_since();
    if (decode && decoding_ && demand_.layer == layer_before + 1 && quiet) {
        mine.add(std::chrono::duration<double>(ring_.now() - *quiet).count());
    }
    decoding_ = decode;
}

void Prefetcher::announce_pause() {
    const size_t next = static_cast<size_t>(demand_.layer) + 1;
    const bool known = decoding_ && next < pauses_.size() && pauses_[next].count > 0;
    reader_.expect_demand_after(known ? pauses_[next].mean
                                      : std::numeric_limits<double>::infinity());
}

}  // namespace sluice
