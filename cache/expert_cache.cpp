#include "cache/expert_cache.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>

#include "cache/slot_pool.h"
#include "cache/tier.h"
#include "io/memory.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr uint32_t none = SlotPool::none;
constexpr size_t guesses_max = 64;    // remembered of one prefetch() call
constexpr size_t collected_max = 32;  // arrivals a call

struct Item {
    int32_t expert;
    uint32_t slot;  // none: takes a ring slot once one is free
};

struct Guess {
    ExpertKey key;
    uint64_t made_at;  // demand number
};

}  // namespace

struct ExpertCache::Impl {
    Impl(const ExpertCacheOptions& options, const ExpertMap& map, ReadRing& ring,
         std::span<std::byte> memory, std::unique_ptr<Policy> policy);

    Result<void> check(int32_t layer, std::span<const int32_t> experts);
    void look_up(std::span<const int32_t> experts, DemandKind kind);
    void find_room(DemandKind kind);
    void seat(Item& item, const Tier::Placed& placed);
    void sort_by_file();
    void drop_passed_guesses();
    void judge_guesses();

    bool passed(ExpertKey key, uint64_t demand) const;
    bool make_ring_slot();
    void drop_guess(uint32_t number);
    void fill();
    void start_guess();
    Result<void> collect(bool wait);
    void arrived(const Arrived& one);
    void lost(uint32_t number);
    Result<void> drain();
    void take_handles_back();
    Result<void> progress();

    ExpertKey key_of(const Item& item) const { return {layer_, item.expert}; }
    const ExpertMap& map_;
    ExpertReader reader_;
    Tier tier_;
    SlotPool slots_;
    uint32_t read_ahead_;          // demand reads given to the reader at once
    std::optional<Error> broken_;  // the ring: nothing works any more

    // The demand.
    uint64_t demand_ = 0;  // its number
    int32_t layer_ = -1;
    std::vector<Item> items_;
    std::vector<uint32_t> ready_;     // items in the order they became ready
    std::vector<uint32_t> to_read_;   // items in the order they are to be read
    size_t given_ = 0;                // of ready_
    size_t started_ = 0;              // of to_read_
    uint32_t held_ = 0;               // handles not released
    bool abandoned_ = false;          // given up; handles may be left over
    std::optional<Error> failed_;     // the first failed read
    std::vector<uint64_t> asked_at_;  // [experts]: the last demand that asked for it

    // Guesses.
    std::vector<Guess> guesses_;  // not started
    int32_t judged_layer_ = -1;
    std::vector<int32_t> judged_;

    CacheStats stats_;
};

ExpertCache::Impl::Impl(const ExpertCacheOptions& options, const ExpertMap& map, ReadRing& ring,
                        std::span<std::byte> memory, std::unique_ptr<Policy> policy)
    : map_(map),
      reader_(ring, map),
      tier_(std::move(policy), options.cache_slots, map.layers(), map.experts()),
      slots_(memory, map, options.cache_slots, options.ring_slots, options.poison),
      read_ahead_(std::clamp<uint32_t>(4 * map.tuning().in_flight_max, 16,
                                       ExpertReader::waiting_max() / 2)),
      asked_at_(static_cast<size_t>(map.experts()), 0) {
    const auto experts = static_cast<size_t>(map.experts());
    items_.reserve(experts);
    ready_.reserve(experts);
    to_read_.reserve(experts);
    guesses_.reserve(guesses_max);
    judged_.reserve(guesses_max);
}

// ---- a demand ----------------------------------------------------------------------------------

Result<void> ExpertCache::Impl::check(int32_t layer, std::span<const int32_t> experts) {
    if (broken_) return tl::unexpected<Error>(*broken_);
    if (abandoned_) take_handles_back();
    if (given_ < items_.size() || held_ > 0) {
        return fail(Code::usage,
                    cat("layer ", layer, ": experts asked for while ", items_.size() - given_,
                        " of layer ", layer_, " are not taken and ", held_, " not released"));
    }
    if (layer < 0 || layer >= map_.layers()) {
        return fail(Code::usage, cat("layer ", layer, " is not one of ", map_.layers()));
    }
    ++demand_;
    for (int32_t expert : experts) {
        if (!map_.has({layer, expert})) {
            return fail(Code::usage, cat("layer ", layer, ": expert ", expert, " is not one of ",
                                         map_.experts()));
        }
        uint64_t& asked = asked_at_[static_cast<size_t>(expert)];
        if (asked == demand_) {
            return fail(Code::usage,
                        cat("layer ", layer, ": expert ", expert, " is asked for twice"));
        }
        asked = demand_;
    }
    return {};
}

// Hits become ready at once, in the order asked; everything without an entry goes to to_read_.
void ExpertCache::Impl::look_up(std::span<const int32_t> experts, DemandKind kind) {
    const bool decode = kind == DemandKind::decode;
    tier_.begin();
    for (int32_t expert : experts) {
        const auto number = static_cast<uint32_t>(items_.size());
        const ExpertKey key{layer_, expert};
        items_.push_back({expert, slots_.find(key)});
        if (tier_.hit(key, decode) < 0) to_read_.push_back(number);
        bool hit = false;
        if (items_.back().slot != none) {
            Slot& slot = slots_[items_.back().slot];
            slot.item = number;
            hit = slot.state == SlotState::ready;
            if (slot.guessed) ++stats_.prefetch_used;
            slot.guessed = false;
            if (hit) {
                ready_.push_back(number);
            } else {
                reader_.promote(key);
                if (decode) ++stats_.late_prefetches;
            }
        }
        ++(decode ? stats_.asked : stats_.sweep_asked);
        if (hit) ++(decode ? stats_.hits : stats_.sweep_hits);
        if (decode && !hit) ++stats_.misses;
    }
}

// Settles who is evicted for whom, in an order that no timing enters; then leaves in to_read_ what
// has to be read, in the order to read it.
void ExpertCache::Impl::find_room(DemandKind kind) {
    const bool sweep = kind == DemandKind::sweep;
    if (sweep) {
        std::sort(to_read_.begin(), to_read_.end(),
                  [this](uint32_t a, uint32_t b) { return items_[a].expert < items_[b].expert; });
    }
    for (uint32_t item : to_read_) {
        seat(items_[item], tier_.place(key_of(items_[item]), !sweep));
    }
    std::erase_if(to_read_, [this](uint32_t item) {
        const uint32_t slot = items_[item].slot;
        return slot != none && slots_[slot].state != SlotState::empty;  // prefetched
    });
    if (sweep) sort_by_file();
}

void ExpertCache::Impl::seat(Item& item, const Tier::Placed& placed) {
    if (placed.entry < 0) return;
    const uint32_t of_entry = slots_.of_entry(placed.entry);
    if (placed.evicted) {
        ++stats_.evictions;
        slots_.vacate(of_entry);
    }
    if (item.slot == none) {
        item.slot = of_entry;
    } else {
        slots_.seat(item.slot, placed.entry);
    }
}

void ExpertCache::Impl::sort_by_file() {
    std::sort(to_read_.begin(), to_read_.end(), [this](uint32_t a, uint32_t b) {
        const ExpertKey x = key_of(items_[a]), y = key_of(items_[b]);
        const File *of_x = &map_.file(x), *of_y = &map_.file(y);
        if (of_x != of_y) return std::less<>()(of_x, of_y);
        return map_.range(x, w1_codes).offset < map_.range(y, w1_codes).offset;
    });
}

// ---- guesses -----------------------------------------------------------------------------------

// Whether a guess has outlived its use: its layer is being computed without it, or never came.
bool ExpertCache::Impl::passed(ExpertKey key, uint64_t demand) const {
    return key.layer == layer_ || demand_ - demand >= static_cast<uint64_t>(map_.layers());
}

void ExpertCache::Impl::drop_passed_guesses() {
    std::erase_if(guesses_,
                  [this](const Guess& guess) { return passed(guess.key, guess.made_at); });
    for (uint32_t number : slots_.ring()) {
        const Slot& slot = slots_[number];
        if (slot.guessed && slot.state == SlotState::ready && passed(slot.key, slot.read_at)) {
            drop_guess(number);
        }
    }
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

// One at a time, when the drive has nothing else to do, and only into a slot that leaves the next
// demand enough of them to keep the drive busy.
void ExpertCache::Impl::start_guess() {
    while (!guesses_.empty() && reader_.pending() == 0 &&
           slots_.ring_free() > map_.tuning().in_flight_max) {
        const ExpertKey key = guesses_.front().key;
        guesses_.erase(guesses_.begin());
        if (slots_.find(key) != none) continue;
        const uint32_t number = slots_.take_ring_slot();
        slots_.start(number, key, demand_);
        slots_[number].guessed = true;
        ++stats_.prefetch_started;
        reader_.request(key, slots_.memory(number), Urgency::prefetch);
    }
}

// ---- reads -------------------------------------------------------------------------------------

// A free ring slot for the demand, if need be that of a guess for later.
bool ExpertCache::Impl::make_ring_slot() {
    if (slots_.ring_free() > 0) return true;
    for (uint32_t number : slots_.ring()) {
        if (slots_[number].guessed && slots_[number].state == SlotState::ready) {
            drop_guess(number);
            return true;
        }
    }
    return false;
}

// Hands reads to the reader: the demand's as far as there are slots, then guesses.
void ExpertCache::Impl::fill() {
    while (started_ < to_read_.size() && reader_.pending_demand() < read_ahead_) {
        const uint32_t number = to_read_[started_];
        Item& item = items_[number];
        if (item.slot == none) {
            if (!make_ring_slot()) return;
            item.slot = slots_.take_ring_slot();
        }
        slots_.start(item.slot, key_of(item), demand_);
        slots_[item.slot].item = number;
        reader_.request(key_of(item), slots_.memory(item.slot), Urgency::demand);
        ++started_;
    }
    if (started_ == to_read_.size()) start_guess();
}

Result<void> ExpertCache::Impl::collect(bool wait) {
    std::array<Arrived, collected_max> done;
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
    if (one.error) {
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
    } else {
        slots_.give_back(number);
    }
}

// Gives the demand up: waits for its reads in flight and forgets what was not started.
Result<void> ExpertCache::Impl::drain() {
    abandoned_ = true;
    while (reader_.pending() > 0) {  // a guess that the demand took over may be finished already
        if (auto done = collect(true); !done) return done;
    }
    for (; started_ < to_read_.size(); ++started_) {
        const Item& item = items_[to_read_[started_]];
        if (item.slot != none) tier_.remove(tier_.find(key_of(item)));
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

// ---- the interface -----------------------------------------------------------------------------

ExpertCache::ExpertCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExpertCache::~ExpertCache() = default;

Result<std::unique_ptr<ExpertCache>> ExpertCache::create(const ExpertCacheOptions& options,
                                                         const ExpertMap& map, ReadRing& ring,
                                                         std::span<std::byte> memory) {
    if (map.layers() <= 0 || map.experts() <= 0 || map.slot_bytes() == 0) {
        return fail(Code::usage, "expert cache: the model has no routed experts");
    }
    if (options.ring_slots < 2) {
        return fail(Code::usage, cat("expert cache: ", options.ring_slots,
                                     " ring slots, at least 2 are needed"));
    }
    const uint64_t all = static_cast<uint64_t>(map.layers()) * static_cast<uint64_t>(map.experts());
    const uint64_t slots = uint64_t{options.cache_slots} + options.ring_slots;
    if (options.cache_slots > all || slots > INT32_MAX) {
        return fail(Code::usage, cat("expert cache: ", options.cache_slots,
                                     " slots for a model of ", all, " experts"));
    }
    if (reinterpret_cast<uintptr_t>(memory.data()) % page_size != 0) {
        return fail(Code::usage, "expert cache: its memory does not begin at a page");
    }
    if (memory.size() / map.slot_bytes() < slots) {
        return fail(Code::no_memory,
                    cat("expert cache: ", slots, " slots of ", size_text(map.slot_bytes()),
                        " do not fit in ", size_text(memory.size())));
    }
    auto policy = make_policy(options.policy, {options.cache_slots, map.layers(), options.seed});
    if (!policy) return tl::unexpected<Error>(policy.error());
    return std::unique_ptr<ExpertCache>(
        new ExpertCache(std::make_unique<Impl>(options, map, ring, memory, std::move(*policy))));
}

Result<void> ExpertCache::demand(int32_t layer, std::span<const int32_t> experts, DemandKind kind) {
    Impl& impl = *impl_;
    if (auto checked = impl.check(layer, experts); !checked) return checked;
    if (impl.reader_.pending() > 0) {
        if (auto collected = impl.collect(false); !collected) return collected;
    }
    impl.items_.clear();
    impl.ready_.clear();
    impl.to_read_.clear();
    impl.given_ = impl.started_ = 0;
    impl.layer_ = layer;
    impl.look_up(experts, kind);
    impl.drop_passed_guesses();
    impl.find_room(kind);
    if (kind == DemandKind::decode) impl.judge_guesses();
    return impl.progress();
}

Result<ExpertHandle> ExpertCache::next() {
    Impl& impl = *impl_;
    if (impl.given_ == impl.items_.size()) {
        return fail(Code::usage, "every expert of this layer was taken already");
    }
    auto moved = impl.progress();
    if (moved && impl.reader_.pending() > 0) moved = impl.collect(false);
    while (moved && !impl.failed_ && impl.given_ == impl.ready_.size()) {
        if (impl.reader_.pending() == 0) {
            return fail(Code::usage, cat("layer ", impl.layer_, ": all ring slots are held by ",
                                         impl.held_, " experts that were not released"));
        }
        moved = impl.collect(true);
        if (moved && !impl.failed_) moved = impl.progress();
    }
    if (!moved) return tl::unexpected<Error>(moved.error());
    if (impl.failed_) {
        Error error = *impl.failed_;
        if (auto drained = impl.drain(); !drained) return tl::unexpected<Error>(drained.error());
        return tl::unexpected<Error>(std::move(error));
    }
    const uint32_t number = impl.items_[impl.ready_[impl.given_++]].slot;
    Slot& slot = impl.slots_[number];
    slot.item = Slot::no_item;
    ++slot.pins;
    ++impl.held_;
    return ExpertHandle{slot.key, number, slot.generation};
}

Result<const std::byte*> ExpertCache::bytes(const ExpertHandle& handle) const {
    if (handle.slot < impl_->slots_.size()) {
        const Slot& slot = impl_->slots_[handle.slot];
        if (slot.state == SlotState::ready && slot.key == handle.key &&
            slot.generation == handle.generation) {
            return impl_->slots_.memory(handle.slot);
        }
    }
    return fail(Code::device, cat("slot ", handle.slot, " no longer holds expert ",
                                  handle.key.expert, " of layer ", handle.key.layer));
}

void ExpertCache::release(const ExpertHandle& handle) {
    Impl& impl = *impl_;
    if (!bytes(handle) || impl.slots_[handle.slot].pins == 0) return;
    Slot& slot = impl.slots_[handle.slot];
    --slot.pins;
    --impl.held_;
    if (!slot.cached && slot.pins == 0) impl.slots_.give_back(handle.slot);
    (void)impl.progress();  // a broken ring is told by the next call that can
}

void ExpertCache::abandon() {
    Impl& impl = *impl_;
    if (impl.broken_) return;
    if (!impl.abandoned_ && !impl.drain()) return;
    impl.take_handles_back();
}

void ExpertCache::prefetch(int32_t layer, std::span<const int32_t> guesses, uint32_t count) {
    Impl& impl = *impl_;
    if (layer == impl.layer_) return;
    impl.judged_layer_ = layer;
    impl.judged_.clear();
    for (int32_t expert : guesses) {
        const ExpertKey key{layer, expert};
        if (!impl.map_.has(key)) continue;
        if (impl.judged_.size() < guesses_max) impl.judged_.push_back(expert);
        const bool waits = std::any_of(impl.guesses_.begin(), impl.guesses_.end(),
                                       [&](const Guess& guess) { return guess.key == key; });
        if (count == 0 || waits || impl.slots_.find(key) != none) continue;
        if (impl.guesses_.size() == guesses_max) continue;
        impl.guesses_.push_back({key, impl.demand_});
        --count;
    }
    (void)impl.progress();  // a broken ring is told by the next call that can
}

Result<void> ExpertCache::pump() {
    if (impl_->broken_) return tl::unexpected<Error>(*impl_->broken_);
    if (impl_->reader_.pending() > 0) {
        if (auto collected = impl_->collect(false); !collected) return collected;
    }
    return impl_->progress();
}

void ExpertCache::token_passed() {
    impl_->tier_.token_passed();
}

bool ExpertCache::resident(ExpertKey key) const {
    if (!impl_->map_.has(key)) return false;
    const uint32_t slot = impl_->slots_.find(key);
    return slot != none && impl_->slots_[slot].state == SlotState::ready;
}

const CacheStats& ExpertCache::stats() const {
    return impl_->stats_;
}

uint32_t ExpertCache::cache_slots() const {
    return impl_->tier_.entries();
}

}  // namespace sluice
