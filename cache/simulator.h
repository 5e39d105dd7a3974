// Replays recorded routes through the same Policy and Predictor classes as the live cache, and
// through Belady.
#pragma once

#include <string>
#include <vector>

#include "cache/policy.h"
#include "cache/route_file.h"
#include "cache/stats.h"

namespace sluice {

struct SimulateOptions {
    std::string policy = default_policy;  // or "belady"
    std::string predictor = "none";
    uint32_t slots = 0;
    uint32_t prefetch = 0;  // guesses followed a layer
    uint64_t seed = 0;
};
// Hits and misses equal those of a live run from a cold start with the same options and no
// prefetch, to the last one. Prefetched experts are taken to arrive in time: an upper bound of what
// guessing gains. No times: wait_s stays 0.
Result<CacheStats> simulate(const RouteFile& routes, const SimulateOptions& options);

}  // namespace sluice
