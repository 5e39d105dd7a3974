// Counters of an expert tier, in RAM or VRAM. Plain numbers, owned by the tier that counts.
//
// SLUICE_CACHE_COUNTERS is the only list of them: the members, the difference and the sum of two
// readings and the JSON of reports are made from it.
#pragma once

#include <cstdint>

namespace sluice {

// clang-format off
// COUNTER(type, member, name in JSON)
#define SLUICE_CACHE_COUNTERS(COUNTER)                                                             \
    /* Decode: lookups, one for each distinct expert of a layer, and those that were resident. */  \
    COUNTER(uint64_t, asked, "asked")                                                              \
    COUNTER(uint64_t, hits, "hits")                                                                \
    /* Being prefetched when asked for: misses that cost less. */                                  \
    COUNTER(uint64_t, late_prefetches, "late_prefetches")                                          \
    COUNTER(uint64_t, misses, "misses")                                                            \
    COUNTER(uint64_t, evictions, "evictions")                                                      \
    /* Prompts: the same, counted apart. */                                                        \
    COUNTER(uint64_t, prompt_asked, "sweep_asked")                                                 \
    COUNTER(uint64_t, prompt_hits, "sweep_hits")                                                   \
    /* Chunks that were part of a chunk group. */                                                  \
    COUNTER(uint64_t, chunks_grouped, "chunks_together")                                           \
    /* Experts read before a prompt's router chose, and those that it did not choose. */           \
    COUNTER(uint64_t, ahead_started, "ahead_started")                                              \
    COUNTER(uint64_t, ahead_dropped, "ahead_dropped")                                              \
    /* Prefetches in decode; wasted: evicted or dropped before use. */                             \
    COUNTER(uint64_t, prefetch_started, "prefetch_started")                                        \
    COUNTER(uint64_t, prefetch_used, "prefetch_used")                                              \
    COUNTER(uint64_t, prefetch_wasted, "prefetch_wasted")                                          \
    /* Experts that a warm-up read (ExpertCache::warm_up). */                                      \
    COUNTER(uint64_t, warmed, "warmed")                                                            \
    /* Experts predicted for the next layer, followed or not. */                                   \
    COUNTER(uint64_t, guesses, "guesses")                                                          \
    COUNTER(uint64_t, guesses_right, "guesses_right")                                              \
    /* How often the governor gave prefetching up. */                                              \
    COUNTER(uint64_t, prefetch_switched_off, "prefetch_switched_off")                              \
    /* Read; a cancelled prefetch counts with what it had read. Warm-ups are prefetches. */        \
    COUNTER(uint64_t, bytes_demand, "bytes_demand")                                                \
    COUNTER(uint64_t, bytes_prefetch, "bytes_prefetch")                                            \
    /* Seconds in which the engine waited for an expert. */                                        \
    COUNTER(double, wait_s, "wait_s")
// clang-format on

struct CacheStats {
#define SLUICE_COUNTER(type, member, json) type member = 0;
    SLUICE_CACHE_COUNTERS(SLUICE_COUNTER)
#undef SLUICE_COUNTER

    // Calls visit(name in JSON, value) for each counter, in the order of the list.
    template <class Visit>
    void for_each(const Visit& visit) const {
#define SLUICE_COUNTER(type, member, json) visit(json, member);
        SLUICE_CACHE_COUNTERS(SLUICE_COUNTER)
#undef SLUICE_COUNTER
    }
};

inline CacheStats operator-(CacheStats a, const CacheStats& b) {
#define SLUICE_COUNTER(type, member, json) a.member -= b.member;
    SLUICE_CACHE_COUNTERS(SLUICE_COUNTER)
#undef SLUICE_COUNTER
    return a;
}

inline CacheStats operator+(CacheStats a, const CacheStats& b) {
#define SLUICE_COUNTER(type, member, json) a.member += b.member;
    SLUICE_CACHE_COUNTERS(SLUICE_COUNTER)
#undef SLUICE_COUNTER
    return a;
}

}  // namespace sluice
