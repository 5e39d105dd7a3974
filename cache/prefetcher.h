// Prefetch in decode: reads experts that are only predicted, before their layer's router chooses.
//
//   add(guesses)  ->  start() when drives and slots are idle  ->  used() by the layer's demand, or
//   drop_passed() when that demand did not ask for it
//
// A prefetch waits behind every demand read, never evicts from the cache, and takes only transit
// slots beyond those that the next demand may need. It does not start if its drive would not finish
// it before the next demand: that time is learned per layer.
//
// A part of ExpertCache: engine thread only, no allocation after construction.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cache/running_demand.h"
#include "cache/slot_pool.h"
#include "cache/stats.h"
#include "io/checkpoint/expert_reader.h"

namespace sluice {

class Prefetcher {
 public:
    static constexpr size_t guesses_max = 64;  // queued, and judged

    // What the references name must outlive it. `demand` is always the one being served.
    Prefetcher(const ExpertMap& map, const ReadRing& ring, ExpertReader& reader, SlotPool& slots,
               const RunningDemand& demand, CacheStats& stats);

    // The next decode demand, if it is for `layer`, judges these guesses.
    void expect(int32_t layer, std::span<const int32_t> guesses);
    // Guesses for `layer`, best first: queues the first `count` that are neither in a slot nor
    // queued.
    void add(int32_t layer, std::span<const int32_t> guesses, uint32_t count);
    // Starts the queued reads whose drives have no demand read left, as far as slots are spare.
    void start();

    // The demand asks for the expert in `slot`. `late`: a decode demand has to wait for its read.
    void used(Slot& slot, bool late);
    // Counts the right guesses among the last ones; `experts`: what the decode demand asks for.
    void judge(std::span<const int32_t> experts);
    // Forgets the guesses that have passed, and frees their slots. A read in flight is cancelled
    // and comes back from the reader.
    void drop_passed();
    // Whether the prefetched expert is too late for its use: its layer is being computed without
    // it, or never came.
    bool passed(const Slot& slot) const { return passed(slot.key, slot.read_at); }
    // Frees a slot that holds an unused prefetched expert.
    void drop(uint32_t number);

    // At the beginning of a demand: learns how long the drives had nothing to read before it, from
    // the last expert read to now. Known only between two layers of a decode step.
    void learn_pause(int32_t layer_before, bool decode);
    // At the end of the same demand: tells the reader how long this will be before the next one.
    void announce_pause();

 private:
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

    bool passed(ExpertKey key, uint64_t demand) const;

    const ExpertMap& map_;
    const ReadRing& ring_;  // for its clock
    ExpertReader& reader_;
    SlotPool& slots_;
    const RunningDemand& demand_;
    CacheStats& stats_;
    std::vector<Guess> queue_;  // not started
    int32_t judged_layer_ = -1;
    std::vector<int32_t> judged_;
    std::vector<Pause> pauses_;  // [layers]
    bool decoding_ = false;      // the running demand is a decode step's
};

}  // namespace sluice
