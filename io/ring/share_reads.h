// Divides the bytes of one expert among the drives that hold a copy. Pure arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/ring/read_plan.h"

namespace sluice {

inline constexpr size_t copies_max = 8;  // of a shard, including the original

struct CopyState {
    double bytes_s = 0;     // of its drive; above 0
    uint64_t waiting = 0;   // bytes requested from its drive and not yet delivered
    bool available = true;  // at least one must be
};

// Gives each copy a share such that all drives finish at the same time, as far as possible. Shares
// are multiples of `alignment` and at least `least`, or 0 (a single copy takes everything). Their
// sum is `total`, a multiple of `alignment`.
void share_bytes(uint64_t total, uint32_t alignment, uint64_t least,
                 std::span<const CopyState> copies, std::span<uint64_t> shares);

struct CopyRead {
    PlannedRead read;
    uint32_t copy;
};

// Cuts `reads` into runs: the first shares[0] bytes from copy 0, and so on. The shares add up to
// the total length of the reads. Appends at most reads.size() + shares.size() - 1 elements to
// `out`.
void cut_reads(std::span<const PlannedRead> reads, std::span<const uint64_t> shares,
               std::vector<CopyRead>& out);

}  // namespace sluice
