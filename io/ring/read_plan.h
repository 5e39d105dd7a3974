// Turns byte ranges into aligned, merged and split reads. Pure arithmetic without files or memory,
// so that it can be property-tested.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

struct ByteRange {
    uint64_t offset;
    uint64_t length;
    bool operator==(const ByteRange&) const = default;
};

// One aligned piece of a file, and where it lands in the destination.
struct PlannedRead {
    uint64_t offset;  // aligned
    uint32_t length;  // aligned; may pass the end of the file
    uint32_t needed;  // bytes up to the end of the file
    uint64_t to;      // offset in the destination, aligned
};

// Removes the first `length` bytes (aligned, above 0; all if there are fewer) from `read` and
// returns them.
PlannedRead take_front(PlannedRead& read, uint64_t length);

struct ReadPlan {
    std::vector<PlannedRead> reads;
    std::vector<uint64_t> starts;  // of each range: its first byte in the destination
    uint64_t bytes;                // size of the destination, aligned
};

// Plans the reads of `ranges`, in the given order, of a file of `file_size` bytes into one
// destination. Each range (inside the file) is widened to `alignment`; successive ranges that touch
// after widening are merged; each merged range is cut into at most `parts` nearly equal aligned
// reads of at least `part_min` bytes (and at most 1 GiB).
ReadPlan plan_reads(std::span<const ByteRange> ranges, uint64_t file_size, uint32_t alignment,
                    uint32_t parts, uint64_t part_min);

}  // namespace sluice
