// Inside of ExpertCache, shared by its two sources: expert_cache.cpp (demands and the interface)
// and expert_cache_reads.cpp (transit slots and reads).
#pragma once

#include "cache/expert_cache.h"
#include "cache/prefetcher.h"
#include "cache/read_ahead.h"
#include "cache/running_demand.h"
#include "cache/slot_pool.h"
#include "cache/tier.h"
#include "cache/warm_up.h"

namespace sluice {

struct ExpertCache::Impl {
    static constexpr uint32_t none = SlotPool::none;

    struct Item {
        int32_t expert;
        uint32_t slot;       // none: takes a transit slot once one is free
        int64_t entry = -1;  // then that slot becomes this entry's, which has no memory yet
    };

    Impl(const ExpertCacheOptions& options, const ExpertMap& map, ReadRing& ring,
         std::span<std::byte> memory, std::unique_ptr<Policy> policy);

    // The steps of demand(), in its order.
    Result<void> check_finished(int32_t layer);
    Result<void> check(int32_t layer, std::span<const int32_t> experts);
    void begin(int32_t layer, bool more);
    void look_up(std::span<const int32_t> experts, DemandKind kind, std::span<const int32_t> first);
    void find_room(DemandKind kind);
    void seat(Item& item, const Tier::Placed& placed);

    // What chunks of a group keep.
    void keep(int32_t expert);
    bool kept(ExpertKey key) const {
        return key.layer == demand_.layer && kept_[static_cast<size_t>(key.expert)];
    }
    void drop_kept();

    bool make_transit_slot();
    void start_reads();
    Result<void> collect(bool wait);
    Result<void> collect_finished();
    void arrived(const Arrived& one);
    void lost(uint32_t number);
    void keep_warm(uint32_t number);
    void settle_warm_up();
    Result<void> drain();
    void take_handles_back();
    Result<void> progress();

    ExpertKey key_of(const Item& item) const { return {demand_.layer, item.expert}; }
    bool all_started() const { return started_ == to_read_.size(); }
    // The next one of the demand's reads; requires !all_started().
    ExpertKey next_read() const { return key_of(items_[to_read_[started_]]); }

    const ExpertMap& map_;
    ExpertReader reader_;
    Tier tier_;
    SlotPool slots_;
    CacheStats stats_;
    uint32_t queued_max_;          // demand reads given to the reader at once
    std::optional<Error> broken_;  // the read ring failed: nothing works any more

    RunningDemand demand_;
    std::vector<Item> items_;
    std::vector<uint32_t> ready_;     // items in the order they became ready
    std::vector<uint32_t> to_read_;   // items in the order they are to be read
    size_t given_ = 0;                // of ready_
    size_t started_ = 0;              // of to_read_
    uint32_t held_ = 0;               // handles not released
    bool abandoned_ = false;          // given up; handles may be left over
    std::optional<Error> failed_;     // the first failed read
    std::vector<uint64_t> asked_at_;  // [experts]: the last demand that asked for it

    bool in_chunk_group_ = false;
    std::vector<bool> kept_;   // [experts] of the running demand's layer: stay in transit slots
    uint32_t kept_count_ = 0;  // at most as many as entries are lent

    Prefetcher prefetcher_;
    ReadAhead ahead_;
    WarmUp warm_up_;
};

}  // namespace sluice
