// Inside of the expert cache, shared by expert_cache.cpp (demands) and expert_cache_reads.cpp
// (slots, reads and guesses).
#pragma once

#include <algorithm>
#include <tuple>

#include "cache/expert_cache.h"
#include "cache/slot_pool.h"
#include "cache/tier.h"

namespace sluice {

struct ExpertCache::Impl {
    static constexpr uint32_t none = SlotPool::none;
    static constexpr size_t guesses_max = 64;  // remembered of prefetch() calls

    struct Item {
        int32_t expert;
        uint32_t slot;       // none: takes a transit slot once one is free
        int64_t entry = -1;  // then that of this entry, which has no memory yet
    };
    struct Guess {
        ExpertKey key;
        uint64_t made_at;  // demand number
    };

    // Before a layer's demand; a moving average.
    struct Pause {
        uint32_t count = 0;
        double mean = 0;  // seconds

        void add(double seconds) {
            count = std::min(count + 1, 8u);
            mean += (seconds - mean) / count;
        }
    };

    Impl(const ExpertCacheOptions& options, const ExpertMap& map, ReadRing& ring,
         std::span<std::byte> memory, std::unique_ptr<Policy> policy);

    Result<void> check_finished(int32_t layer);
    Result<void> check(int32_t layer, std::span<const int32_t> experts);
    void look_up(std::span<const int32_t> experts, DemandKind kind, std::span<const int32_t> first);
    void find_room(DemandKind kind);
    void seat(Item& item, const Tier::Placed& placed);
    void keep(int32_t expert);
    bool kept(ExpertKey key) const {
        return key.layer == layer_ && kept_[static_cast<size_t>(key.expert)];
    }
    void drop_kept();
    std::tuple<uintptr_t, uint64_t, uint64_t> place_in_file(ExpertKey key) const;
    void judge_guesses();

    void note_guesses(int32_t layer, std::span<const int32_t> guesses, uint32_t count);
    void drop_passed_guesses();
    void learn_pause(int32_t layer_before, bool decode);
    void tell_pause();
    bool passed(ExpertKey key, uint64_t demand) const;
    bool make_transit_slot();
    void drop_guess(uint32_t number);
    void fill();
    void start_guess();
    void start_ahead();
    bool ahead_elsewhere() const;
    // Whether the next demand of this layer may ask for what was read ahead.
    bool ahead_of_use(int32_t layer) const {
        return layer == ahead_layer_ || (more_ && layer == layer_);
    }
    void forget_ahead();
    void drop_ahead();
    void drop_one_ahead(uint32_t number);
    Result<void> collect(bool wait);
    void arrived(const Arrived& one);
    void lost(uint32_t number);
    Result<void> drain();
    void take_handles_back();
    Result<void> progress();

    ExpertKey key_of(const Item& item) const { return {layer_, item.expert}; }

    const ExpertMap& map_;
    const ReadRing& ring_;
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

    // Chunks that share their reads.
    bool in_chunk_group_ = false;
    bool more_ = false;        // the demand's
    std::vector<bool> kept_;   // [experts] of layer_: stay in their transit slots
    uint32_t kept_count_ = 0;  // at most as many as entries are lent

    // Guesses.
    std::vector<Guess> guesses_;  // not started
    int32_t judged_layer_ = -1;
    std::vector<int32_t> judged_;
    std::vector<Pause> pauses_;  // [layers]
    bool decoding_ = false;      // the last demand was a decode step's

    // The sweep to come.
    int32_t ahead_layer_ = -1;
    std::vector<int32_t> ahead_;  // in file order
    size_t ahead_begun_ = 0;      // of ahead_
    uint32_t ahead_slots_ = 0;    // that hold, or will hold, what was read for it

    CacheStats stats_;
};

}  // namespace sluice
