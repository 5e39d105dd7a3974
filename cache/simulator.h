// Simulator: replays recorded routes through the Tier, Policy and Predictor classes of the live
// cache, or through Belady's policy, which knows the future.
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
    uint32_t prefetch = 0;  // guesses per layer
    uint64_t seed = 0;
};
// Without prefetch, all counters of hits, misses and evictions equal those of a live run from a
// cold start with the same options. Prefetched experts are assumed to arrive in time, so the result
// is an upper bound of what prefetching gains. There are no times: wait_s stays 0.
// `report`, if not null, becomes what the policy says that it did.
Result<CacheStats> simulate(const RouteFile& routes, const SimulateOptions& options,
                            std::string* report = nullptr);

}  // namespace sluice
