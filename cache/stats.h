// Counters of the expert tiers. Plain numbers, owned by who counts, summed by who prints.
#pragma once

#include <cstdint>

namespace sluice {

struct CacheStats {
    uint64_t asked = 0;            // demand lookups (distinct experts of a layer step)
    uint64_t hits = 0;             // resident when asked
    uint64_t late_prefetches = 0;  // being prefetched when asked: counted as misses that cost less
    uint64_t misses = 0;
    uint64_t evictions = 0;
    uint64_t sweep_asked = 0;  // the same for prompt sweeps, kept apart
    uint64_t sweep_hits = 0;
    uint64_t chunks_grouped = 0;  // of prompts, that shared their reads of a layer
    uint64_t ahead_started = 0;   // read for a sweep before its router chose
    uint64_t ahead_dropped = 0;   // of those, not chosen
    uint64_t prefetch_started = 0;
    uint64_t prefetch_used = 0;
    uint64_t prefetch_wasted = 0;  // evicted or dropped before use
    uint64_t guesses = 0;          // experts predicted for the next layer
    uint64_t guesses_right = 0;
    uint64_t prefetch_switched_off = 0;
    uint64_t bytes_demand = 0;
    uint64_t bytes_prefetch = 0;  // of guesses that were called back, what had been read
    double wait_s = 0;            // the engine stood still for an expert
};

}  // namespace sluice
