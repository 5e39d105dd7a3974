#include "io/ring/read_plan.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "io/memory.h"

namespace sluice {

namespace {

constexpr uint64_t read_max = uint64_t{1} << 30;

struct Span {  // aligned, in the file, and where it goes
    uint64_t begin;
    uint64_t end;
    uint64_t to;
};

void cut(const Span& span, uint64_t file_size, uint32_t alignment, uint32_t parts,
         uint64_t part_min, std::vector<PlannedRead>& reads) {
    const uint64_t blocks = (span.end - span.begin) / alignment;
    const uint64_t blocks_min = std::max<uint64_t>(1, (part_min + alignment - 1) / alignment);
    const uint64_t blocks_max = read_max / alignment;
    uint64_t count = std::clamp<uint64_t>(blocks / blocks_min, 1, parts);
    count = std::max(count, (blocks + blocks_max - 1) / blocks_max);
    uint64_t at = span.begin;
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t length = (blocks / count + (i < blocks % count ? 1 : 0)) * alignment;
        reads.push_back({.offset = at,
                         .length = static_cast<uint32_t>(length),
                         .needed = static_cast<uint32_t>(std::min(length, file_size - at)),
                         .to = span.to + (at - span.begin)});
        at += length;
    }
}

}  // namespace

PlannedRead take_front(PlannedRead& read, uint64_t length) {
    PlannedRead front = read;
    front.length = static_cast<uint32_t>(std::min<uint64_t>(read.length, length));
    front.needed = std::min(front.length, read.needed);
    read.offset += front.length;
    read.to += front.length;
    read.length -= front.length;
    read.needed -= front.needed;
    return front;
}

ReadPlan plan_reads(std::span<const ByteRange> ranges, uint64_t file_size, uint32_t alignment,
                    uint32_t parts, uint64_t part_min) {
    assert(std::has_single_bit(alignment) && alignment <= read_max && parts > 0);
    ReadPlan plan{};
    std::vector<Span> spans;
    for (const ByteRange& range : ranges) {
        assert(range.offset <= file_size && range.length <= file_size - range.offset);
        if (range.length == 0) {
            plan.starts.push_back(plan.bytes);
            continue;
        }
        const uint64_t begin = round_down(range.offset, alignment);
        const uint64_t end = round_up(range.offset + range.length, alignment);
        // Begins where the previous span ends, or in its last block.
        const bool follows =
            !spans.empty() && begin >= spans.back().begin && begin <= spans.back().end;
        if (!follows) spans.push_back({begin, end, plan.bytes});
        Span& span = spans.back();
        span.end = std::max(span.end, end);
        plan.starts.push_back(span.to + (range.offset - span.begin));
        plan.bytes = span.to + (span.end - span.begin);
    }
    for (const Span& span : spans) {
        cut(span, file_size, alignment, parts, part_min, plan.reads);
    }
    return plan;
}

}  // namespace sluice
