// Warm-up: reads the experts that an earlier run kept into cache entries that hold nothing, while
// the drives have nothing else to do.
//
//   add(keys)  ->  start() whenever reads may start  ->  the cache keeps each as it arrives  ->
//   finished(): the policy learns their order
//
// A warm-up read waits behind every demand read and every prefetch, evicts nothing, and takes only
// transit slots beyond those that the next demand may need. When an expert arrives decides which
// entry it gets, so hits and evictions of a run with a warm-up depend on timing; results do not.
//
// A part of ExpertCache: engine thread only, no allocation after add().
#pragma once

#include <span>
#include <vector>

#include "cache/running_demand.h"
#include "cache/slot_pool.h"
#include "io/checkpoint/expert_reader.h"

namespace sluice {

class WarmUp {
 public:
    // What the references name must outlive it. `demand` is always the one being served.
    WarmUp(const ExpertMap& map, ExpertReader& reader, SlotPool& slots, const RunningDemand& demand)
        : map_(map), reader_(reader), slots_(slots), demand_(demand) {}

    // The experts to read, most valuable first, instead of those that are left.
    void add(std::span<const ExpertKey> keys);
    // Starts reads on drives without other work, as far as slots are spare.
    void start();
    // Whether reads are left to start or in flight.
    bool running() const { return !left_.empty() || in_flight_ > 0; }
    // Starts no more reads: no entry is left that holds nothing, or a drive fails.
    void stop() { left_.clear(); }
    // What was to be read, most valuable first, once after the last read has ended.
    std::span<const ExpertKey> finished();

    // The read of this slot has ended, or a demand has taken the slot over. False: it is none of
    // these reads.
    bool taken(Slot& slot);

 private:
    // Looks so far for an expert whose drive is free.
    static constexpr size_t window = 64;

    bool may_start(ExpertKey key) const;

    const ExpertMap& map_;
    ExpertReader& reader_;
    SlotPool& slots_;
    const RunningDemand& demand_;
    std::vector<ExpertKey> all_;   // the most valuable one first
    std::vector<ExpertKey> left_;  // the most valuable one last
    bool begun_ = false;
    uint32_t in_flight_ = 0;
};

}  // namespace sluice
