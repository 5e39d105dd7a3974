#include "cache/expert_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cache/expert_cache_impl.h"
#include "io/memory.h"
#include "io/text.h"

namespace sluice {

ExpertCache::Impl::Impl(const ExpertCacheOptions& options, const ExpertMap& map, ReadRing& ring,
                        std::span<std::byte> memory, std::unique_ptr<Policy> policy)
    : map_(map),
      reader_(ring, map),
      tier_(std::move(policy), options.cache_slots, map.layers(), map.experts()),
      slots_(memory, map, options.cache_slots, options.transit_slots, options.poison),
      queued_max_(std::clamp<uint32_t>(4 * map.tuning().in_flight_max, 16,
                                       ExpertReader::waiting_max() / 2)),
      asked_at_(static_cast<size_t>(map.experts()), 0),
      kept_(static_cast<size_t>(map.experts()), false),
      prefetcher_(map, ring, reader_, slots_, demand_, stats_),
      ahead_(map, reader_, slots_, demand_, stats_),
      warm_up_(map, reader_, slots_, demand_) {
    const auto experts = static_cast<size_t>(map.experts());
    items_.reserve(experts);
    ready_.reserve(experts);
    to_read_.reserve(experts);
}

// ---- the steps of a demand ---------------------------------------------------------------------

Result<void> ExpertCache::Impl::check_finished(int32_t layer) {
    if (broken_) return tl::unexpected<Error>(*broken_);
    if (abandoned_) take_handles_back();
    if (given_ == items_.size() && held_ == 0) return {};
    return fail(Code::usage,
                cat("layer ", layer, ": experts requested while ", items_.size() - given_,
                    " of layer ", demand_.layer, " are not taken and ", held_, " not released"));
}

// Counts the demand as well, so that a second mention of an expert is recognised.
Result<void> ExpertCache::Impl::check(int32_t layer, std::span<const int32_t> experts) {
    if (auto finished = check_finished(layer); !finished) return finished;
    if (layer < 0 || layer >= map_.layers()) {
        return fail(Code::usage,
                    cat("layer ", layer, " does not exist: the model has ", map_.layers()));
    }
    ++demand_.number;
    for (int32_t expert : experts) {
        if (!map_.has({layer, expert})) {
            return fail(Code::usage, cat("layer ", layer, ": expert ", expert,
                                         " does not exist: a layer has ", map_.experts()));
        }
        uint64_t& asked = asked_at_[static_cast<size_t>(expert)];
        if (asked == demand_.number) {
            return fail(Code::usage,
                        cat("layer ", layer, ": expert ", expert, " is requested twice"));
        }
        asked = demand_.number;
    }
    return {};
}

void ExpertCache::Impl::begin(int32_t layer, bool more) {
    items_.clear();
    ready_.clear();
    to_read_.clear();
    given_ = started_ = 0;
    if (layer != demand_.layer) drop_kept();  // no chunk comes back to the layer before
    demand_.layer = layer;
    demand_.more = more;
}

// Hits become ready at once, `first` before the others, otherwise in the order asked; everything
// without an entry goes to to_read_.
void ExpertCache::Impl::look_up(std::span<const int32_t> experts, DemandKind kind,
                                std::span<const int32_t> first) {
    const bool decode = kind == DemandKind::decode;
    std::ptrdiff_t in_front = 0;
    tier_.begin();
    for (int32_t expert : experts) {
        const auto number = static_cast<uint32_t>(items_.size());
        const ExpertKey key{demand_.layer, expert};
        items_.push_back({expert, slots_.find(key)});
        if (tier_.hit(key, decode) < 0) to_read_.push_back(number);
        bool hit = false;
        if (items_.back().slot != none) {
            Slot& slot = slots_[items_.back().slot];
            slot.item = number;
            const bool ready = slot.state == SlotState::ready;
            hit = ready && !slot.read_ahead;
            if (ready && std::find(first.begin(), first.end(), expert) != first.end()) {
                ready_.insert(ready_.begin() + in_front++, number);
            } else if (ready) {
                ready_.push_back(number);
            } else {
                reader_.promote(key);
            }
            prefetcher_.used(slot, decode && !ready);
            ahead_.taken(slot);
            warm_up_.taken(slot);
        }
        ++(decode ? stats_.asked : stats_.prompt_asked);
        if (hit) ++(decode ? stats_.hits : stats_.prompt_hits);
        if (decode && !hit) ++stats_.misses;
    }
}

// Decides which experts are evicted, in an order that no timing enters. Then leaves in to_read_
// what has to be read, in the order to read it.
void ExpertCache::Impl::find_room(DemandKind kind) {
    const bool prompt = kind == DemandKind::prompt;
    if (prompt) {
        std::sort(to_read_.begin(), to_read_.end(),
                  [this](uint32_t a, uint32_t b) { return items_[a].expert < items_[b].expert; });
    }
    for (uint32_t item : to_read_) {
        const Tier::Placed placed = tier_.place(key_of(items_[item]), !prompt);
        seat(items_[item], placed);
        if (placed.entry < 0 && demand_.more) keep(items_[item].expert);
    }
    std::erase_if(to_read_, [this](uint32_t item) {
        const uint32_t slot = items_[item].slot;
        return slot != none && slots_[slot].state != SlotState::empty;  // prefetched or read ahead
    });
    if (!prompt) return;
    std::sort(to_read_.begin(), to_read_.end(), [this](uint32_t a, uint32_t b) {
        return place_in_file(map_, key_of(items_[a])) < place_in_file(map_, key_of(items_[b]));
    });
}

void ExpertCache::Impl::seat(Item& item, const Tier::Placed& placed) {
    if (placed.entry < 0) return;
    const auto one = static_cast<size_t>(item.expert);
    kept_count_ -= kept_[one];
    kept_[one] = false;
    const uint32_t of_entry = slots_.of_entry(placed.entry);
    if (placed.evicted) {
        ++stats_.evictions;
        slots_.vacate(of_entry);
    }
    if (item.slot == none) {
        item.slot = of_entry;
        item.entry = placed.entry;
    } else {
        slots_.seat(item.slot, placed.entry);
    }
}

// Which experts are kept is decided here, too: those with the lowest ids, so that no timing enters.
void ExpertCache::Impl::keep(int32_t expert) {
    const auto one = static_cast<size_t>(expert);
    if (kept_[one] || kept_count_ == tier_.lent().size()) return;
    kept_[one] = true;
    ++kept_count_;
}

// What the running demand has asked for is freed when it is released, the rest now.
void ExpertCache::Impl::drop_kept() {
    if (kept_count_ == 0) return;
    for (int32_t expert = 0; expert < map_.experts(); ++expert) {
        if (!kept_[static_cast<size_t>(expert)]) continue;
        kept_[static_cast<size_t>(expert)] = false;
        const uint32_t number = slots_.find({demand_.layer, expert});
        if (number == none) continue;
        const Slot& slot = slots_[number];
        const bool idle = slot.pins == 0 && slot.item == Slot::no_item;
        if (!slot.cached && slot.state == SlotState::ready && idle) slots_.give_back(number);
    }
    kept_count_ = 0;
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
    if (options.transit_slots < 2) {
        return fail(Code::usage, cat("expert cache: ", options.transit_slots,
                                     " transit slots; at least 2 are needed"));
    }
    const uint64_t all = static_cast<uint64_t>(map.layers()) * static_cast<uint64_t>(map.experts());
    const uint64_t slots = uint64_t{options.cache_slots} + options.transit_slots;
    if (options.cache_slots > all || slots > INT32_MAX) {
        return fail(Code::usage, cat("expert cache: ", options.cache_slots,
                                     " slots for a model of ", all, " experts"));
    }
    if (reinterpret_cast<uintptr_t>(memory.data()) % page_size != 0) {
        return fail(Code::usage, "expert cache: its memory does not begin at a page boundary");
    }
    if (memory.size() / map.slot_bytes() < slots) {
        return fail(Code::no_memory,
                    cat("expert cache: ", slots, " slots of ", size_text(map.slot_bytes()),
                        " do not fit in ", size_text(memory.size())));
    }
    auto policy = make_policy(options.policy,
                              {options.cache_slots, map.layers(), map.experts(), options.seed});
    if (!policy) return tl::unexpected<Error>(policy.error());
    return std::unique_ptr<ExpertCache>(
        new ExpertCache(std::make_unique<Impl>(options, map, ring, memory, std::move(*policy))));
}

Result<void> ExpertCache::demand(int32_t layer, std::span<const int32_t> experts, DemandKind kind,
                                 bool more, std::span<const int32_t> first) {
    Impl& impl = *impl_;
    const bool decode = kind == DemandKind::decode;
    const int32_t layer_before = impl.demand_.layer;

    // 1. Refuse what cannot be served: slots of an unfinished demand are still in use.
    if (auto checked = impl.check(layer, experts); !checked) return checked;
    // 2. Take in finished reads, so that they count as ready and can be given at once.
    if (auto collected = impl.collect_finished(); !collected) return collected;
    // 3. Start with empty lists. Only chunks of a prompt can have others behind them.
    impl.begin(layer, more && impl.in_chunk_group_ && !decode);
    // 4. Learn how long the drives were idle, before this demand gives them work.
    impl.prefetcher_.learn_pause(layer_before, decode);
    // 5. Find what is there or on its way. That protects it from the evictions of step 8.
    impl.look_up(experts, kind, first);
    // 6. Free what was read for this layer and not asked for. After look_up(), which took the rest.
    impl.prefetcher_.drop_passed();
    if (!impl.demand_.more) impl.drop_kept();
    // 7. The same for what was read ahead; later chunks of a group may still use it.
    if (!impl.in_chunk_group_ || impl.ahead_.layer() == layer) impl.ahead_.forget();
    impl.ahead_.drop_unneeded();
    // 8. Give places to the missing ones. The only step that evicts; no timing enters.
    impl.find_room(kind);
    // 9. Compare the last guesses with what was asked for. Counters only.
    if (decode) impl.prefetcher_.judge(experts);
    // 10. Start the reads, the demand's first.
    auto moved = impl.progress();
    // 11. Tell the reader how long it may prefetch before the next demand.
    impl.prefetcher_.announce_pause();
    return moved;
}

Result<ExpertHandle> ExpertCache::next() {
    Impl& impl = *impl_;
    if (impl.given_ == impl.items_.size()) {
        return fail(Code::usage, "every expert of this layer was taken already");
    }
    auto moved = impl.progress();
    if (moved) moved = impl.collect_finished();
    if (moved) moved = impl.progress();
    while (moved && !impl.failed_ && impl.given_ == impl.ready_.size()) {
        if (impl.reader_.pending() == 0) {
            return fail(Code::usage,
                        cat("layer ", impl.demand_.layer, ": all transit slots are held by ",
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

// Here and below, a failed read ring is reported by the next call that returns a Result.
void ExpertCache::release(const ExpertHandle& handle) {
    Impl& impl = *impl_;
    if (!bytes(handle) || impl.slots_[handle.slot].pins == 0) return;
    Slot& slot = impl.slots_[handle.slot];
    --slot.pins;
    --impl.held_;
    if (!slot.cached && slot.pins == 0 && !impl.kept(slot.key)) impl.slots_.give_back(handle.slot);
    (void)impl.progress();
}

void ExpertCache::abandon() {
    Impl& impl = *impl_;
    if (impl.broken_) return;
    if (!impl.abandoned_ && !impl.drain()) return;
    impl.take_handles_back();
}

bool ExpertCache::chunk_group_pays(uint32_t chunks) const {
    return impl_->tier_.lending_pays(chunks);
}

Result<void> ExpertCache::begin_chunk_group(uint32_t chunks) {
    Impl& impl = *impl_;
    if (auto finished = impl.check_finished(0); !finished) return finished;
    impl.in_chunk_group_ = true;
    impl.stats_.chunks_grouped += chunks;
    impl.stats_.evictions += impl.tier_.lend();
    for (uint32_t entry : impl.tier_.lent()) {
        const uint32_t number = impl.slots_.of_entry(entry);
        if (number != Impl::none) impl.slots_.vacate(number);
        impl.slots_.unseat(entry);
    }
    return {};
}

void ExpertCache::end_chunk_group() {
    Impl& impl = *impl_;
    impl.drop_kept();
    impl.in_chunk_group_ = impl.demand_.more = false;
    impl.ahead_.drop_unneeded();
    impl.tier_.take_back();
}

bool ExpertCache::keeps_layer() const {
    return impl_->tier_.lendable() >= static_cast<uint32_t>(impl_->map_.experts());
}

void ExpertCache::prefetch(int32_t layer, std::span<const int32_t> guesses, uint32_t count,
                           bool known) {
    if (layer == impl_->demand_.layer) return;
    if (!known) impl_->prefetcher_.expect(layer, guesses);
    impl_->prefetcher_.add(layer, guesses, count);
    (void)impl_->progress();
}

bool ExpertCache::ready() const {
    return impl_->given_ < impl_->ready_.size();
}

Result<void> ExpertCache::wait_for_reads() {
    Impl& impl = *impl_;
    Result<void> moved = impl.progress();
    while (moved && !impl.failed_ && impl.reader_.pending_demand() > 0) {
        moved = impl.collect(true);
        if (moved) moved = impl.progress();
    }
    return moved;
}

void ExpertCache::read_ahead(int32_t layer, std::span<const int32_t> experts) {
    Impl& impl = *impl_;
    if (layer == impl.demand_.layer && impl.given_ < impl.items_.size()) return;
    impl.ahead_.announce(layer, experts);
    (void)impl.progress();
}

void ExpertCache::warm_up(std::span<const ExpertKey> keys) {
    impl_->warm_up_.add(keys);
}

Result<bool> ExpertCache::go_on_warming_up() {
    if (!impl_->warm_up_.running()) return false;
    impl_->reader_.expect_demand_after(std::numeric_limits<double>::infinity());
    if (auto moved = pump(); !moved) return tl::unexpected(moved.error());
    return impl_->warm_up_.running();
}

std::vector<ExpertKey> ExpertCache::by_recency() const {
    return impl_->tier_.by_recency();
}

Result<void> ExpertCache::pump() {
    if (impl_->broken_) return tl::unexpected<Error>(*impl_->broken_);
    if (auto collected = impl_->collect_finished(); !collected) return collected;
    return impl_->progress();
}

void ExpertCache::token_passed() {
    impl_->tier_.token_passed();
}

bool ExpertCache::resident(ExpertKey key) const {
    if (!impl_->map_.has(key)) return false;
    const uint32_t slot = impl_->slots_.find(key);
    return slot != SlotPool::none && impl_->slots_[slot].state == SlotState::ready;
}

bool ExpertCache::kept(ExpertKey key) const {
    return resident(key) && impl_->slots_[impl_->slots_.find(key)].cached;
}

uint64_t ExpertCache::bytes_from(uint32_t drive) const {
    return impl_->reader_.bytes_from(drive);
}

const CacheStats& ExpertCache::stats() const {
    return impl_->stats_;
}

uint32_t ExpertCache::cache_slots() const {
    return impl_->tier_.entries();
}

}  // namespace sluice
