// Read-ahead for prompts: a prompt needs nearly all experts of a layer, so they can be read while
// an earlier layer is still being computed.
//
//   announce(layer, experts)  ->  start(), behind the reads of the running demand  ->  taken() by
//   that layer's demand, or drop_unneeded() when no demand can use it any more
//
// A part of ExpertCache: engine thread only, no allocation after construction.
#pragma once

#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "cache/running_demand.h"
#include "cache/slot_pool.h"
#include "cache/stats.h"
#include "io/checkpoint/expert_reader.h"

namespace sluice {

// Where an expert begins in the checkpoint. Reads in this order go through each file once.
std::tuple<uintptr_t, uint64_t, uint64_t> place_in_file(const ExpertMap& map, ExpertKey key);

class ReadAhead {
 public:
    // What the references name must outlive it. `demand` is always the one being served.
    ReadAhead(const ExpertMap& map, ExpertReader& reader, SlotPool& slots,
              const RunningDemand& demand, CacheStats& stats);

    // A demand for nearly all of `experts` will come to `layer`. Replaces the last announcement.
    void announce(int32_t layer, std::span<const int32_t> experts);
    // Starts no more reads of the announced layer.
    void forget();
    int32_t layer() const { return layer_; }  // -1: none is announced

    // Starts announced reads in file order. `waiting`: the demand's next read, if it is not started
    // yet. Leaves `reserve` transit slots free.
    void start(std::optional<ExpertKey> waiting, uint32_t reserve);
    // Whether the next announced read is from a drive other than that of `waiting`.
    bool on_another_drive(ExpertKey waiting) const;

    // The demand takes the slot over if it was read ahead.
    void taken(Slot& slot);
    // Frees the slots that no demand can use any more; a read in flight is dropped on arrival.
    void drop_unneeded();
    // Whether a demand for what was read ahead in `layer` may still come.
    bool needed(int32_t layer) const {
        return layer == layer_ || (demand_.more && layer == demand_.layer);
    }
    // Frees a slot that was read ahead and not taken.
    void drop(uint32_t number);

    // Slots that hold, or are being read for, what no demand has taken yet.
    uint32_t slots() const { return slots_in_use_; }

 private:
    bool all_started() const { return started_ == experts_.size(); }

    const ExpertMap& map_;
    ExpertReader& reader_;
    SlotPool& slots_;
    const RunningDemand& demand_;
    CacheStats& stats_;
    int32_t layer_ = -1;
    std::vector<int32_t> experts_;  // in file order
    size_t started_ = 0;            // of experts_
    uint32_t slots_in_use_ = 0;
};

}  // namespace sluice
