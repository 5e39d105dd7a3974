// The draws of numpy's default generator (deepseek-v41.md section 3.8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// default_rng(seed).integers(0, bound, count). Requires bound > 2^32 (below that, numpy draws 32
// bits at a time).
std::vector<uint64_t> numpy_integers(uint64_t seed, uint64_t bound, size_t count);

}  // namespace sluice
