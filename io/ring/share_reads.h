// How the bytes of one expert are divided over the drives that hold a copy. Pure arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/ring/read_plan.h"

namespace sluice {

inline constexpr size_t copies_max = 8;  // of a shard, the first included

struct CopyState {
    double bytes_s = 0;     // of its drive; above 0
    uint64_t waiting = 0;   // bytes its drive has been asked for and not delivered
    bool available = true;  // at least one is
};

// Bytes for each copy so that all drives are done at the same time as far as that is possible, in
// multiples of `alignment`, none below `least` but 0 (one copy alone takes all). The sum is `total`
// (a multiple of `alignment`).
void share_bytes(uint64_t total, uint32_t alignment, uint64_t least,
                 std::span<const CopyState> copies, std::span<uint64_t> shares);

struct CopyRead {
    PlannedRead read;
    uint32_t copy;
};

// Cuts `reads` into runs: the first shares[0] bytes from copy 0, and so on. The sum of the shares
// is that of the lengths. Appends at most reads.size() + shares.size() - 1 to `out`.
void cut_reads(std::span<const PlannedRead> reads, std::span<const uint64_t> shares,
               std::vector<CopyRead>& out);

}  // namespace sluice
