#include "io/ring/read_plan.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "io/memory.h"

using namespace sluice;

namespace {

struct Case {
    std::vector<ByteRange> ranges;
    uint64_t file_size;
    uint32_t alignment;
    uint32_t parts;
    uint64_t part_min;
};

// Ranges that often touch, adjoin, repeat, or end at the end of the file.
Case random_case() {
    using rc::gen::inRange;
    Case c{};
    c.alignment = 1u << *inRange(0, 13);
    c.file_size = *inRange<uint64_t>(1, 200'000);
    c.parts = *inRange(1u, 9u);
    c.part_min = *inRange<uint64_t>(0, 20'000);
    uint64_t at = 0;
    for (int i = *inRange(0, 8); i > 0; --i) {
        switch (*inRange(0, 4)) {
            case 0:
                break;  // begins where the last one ended
            case 1:
                at = std::min(at + *inRange<uint64_t>(0, 9000), c.file_size);
                break;
            default:
                at = *inRange<uint64_t>(0, c.file_size + 1);
        }
        uint64_t length = *inRange<uint64_t>(0, 30'000);
        if (*inRange(0, 6) == 0) length = c.file_size;
        length = std::min(length, c.file_size - at);
        c.ranges.push_back({at, length});
        at += length;
    }
    return c;
}

ReadPlan plan_of(const Case& c) {
    return plan_reads(c.ranges, c.file_size, c.alignment, c.parts, c.part_min);
}

void check(const char* what, const std::function<void()>& property) {
    CHECK_MESSAGE(rc::check(what, property), what);
}

}  // namespace

TEST_CASE(
    "reads are aligned, disjoint in the destination, and need bytes up to the end of the file") {
    check("shape of reads", [] {
        const Case c = random_case();
        const ReadPlan plan = plan_of(c);
        uint64_t to = 0;
        for (const PlannedRead& read : plan.reads) {
            RC_ASSERT(read.offset % c.alignment == 0u);
            RC_ASSERT(read.length % c.alignment == 0u);
            RC_ASSERT(read.length > 0u);
            RC_ASSERT(read.to == to);  // one after another, without gaps
            RC_ASSERT(read.offset < c.file_size);
            RC_ASSERT(read.needed == std::min<uint64_t>(read.length, c.file_size - read.offset));
            to += read.length;
        }
        RC_ASSERT(plan.bytes == to);
    });
}

TEST_CASE("the destination holds every range where the plan says") {
    check("content", [] {
        const Case c = random_case();
        const ReadPlan plan = plan_of(c);
        // The destination, as the file offsets of its bytes.
        std::vector<uint64_t> content(plan.bytes, UINT64_MAX);
        for (const PlannedRead& read : plan.reads) {
            for (uint32_t i = 0; i < read.needed; ++i) content[read.to + i] = read.offset + i;
        }
        RC_ASSERT(plan.starts.size() == c.ranges.size());
        for (size_t r = 0; r < c.ranges.size(); ++r) {
            RC_ASSERT(plan.starts[r] + c.ranges[r].length <= plan.bytes);
            for (uint64_t i = 0; i < c.ranges[r].length; ++i) {
                RC_ASSERT(content[plan.starts[r] + i] == c.ranges[r].offset + i);
            }
        }
    });
}

TEST_CASE("no block is read without need, and neighbours are merged") {
    check("cost", [] {
        const Case c = random_case();
        const ReadPlan plan = plan_of(c);
        uint64_t wanted = 0;
        for (const ByteRange& range : c.ranges) {
            if (range.length == 0) continue;
            wanted += round_up(range.offset + range.length, c.alignment) -
                      round_down(range.offset, c.alignment);
        }
        RC_ASSERT(plan.bytes <= wanted);
        for (const PlannedRead& read : plan.reads) {
            const bool used =
                std::any_of(c.ranges.begin(), c.ranges.end(), [&](const ByteRange& range) {
                    return range.length > 0 && range.offset < read.offset + read.length &&
                           read.offset < range.offset + range.length;
                });
            RC_ASSERT(used);
        }
    });
}

TEST_CASE("a range is cut into nearly equal parts of at least the requested size") {
    check("parts", [] {
        Case c = random_case();
        c.ranges.resize(1);
        const ReadPlan plan = plan_of(c);
        RC_ASSERT(plan.reads.size() <= c.parts);
        if (plan.reads.size() < 2) return;
        const auto [shortest, longest] = std::minmax_element(
            plan.reads.begin(), plan.reads.end(),
            [](const PlannedRead& a, const PlannedRead& b) { return a.length < b.length; });
        RC_ASSERT(shortest->length >= c.part_min);
        RC_ASSERT(longest->length - shortest->length <= c.alignment);
    });
}

TEST_CASE("examples") {
    SUBCASE("codes and scales that touch are one read") {
        const std::vector<ByteRange> ranges{{100, 5000}, {5100, 10}, {6000, 1}};
        const ReadPlan plan = plan_reads(ranges, 1 << 20, 4096, 1, 1);
        REQUIRE(plan.reads.size() == 1);
        CHECK(plan.reads[0].offset == 0);
        CHECK(plan.reads[0].length == 8192);
        CHECK(plan.starts == std::vector<uint64_t>{100, 5100, 6000});
    }
    SUBCASE("whole blocks that follow each other are one read, with a gap they are two") {
        const std::vector<ByteRange> touching{{0, 4096}, {4096, 4096}};
        CHECK(plan_reads(touching, 1 << 20, 4096, 1, 1).reads.size() == 1);
        const std::vector<ByteRange> apart{{0, 4096}, {8192, 4096}};
        CHECK(plan_reads(apart, 1 << 20, 4096, 1, 1).reads.size() == 2);
    }
    SUBCASE("the order asked is kept, and a range before the last one is apart") {
        const std::vector<ByteRange> ranges{{8192, 100}, {0, 100}};
        const ReadPlan plan = plan_reads(ranges, 1 << 20, 4096, 4, 1);
        REQUIRE(plan.reads.size() == 2);
        CHECK(plan.reads[0].offset == 8192);
        CHECK(plan.reads[1].offset == 0);
        CHECK(plan.starts == std::vector<uint64_t>{0, 4096});
    }
    SUBCASE("the last bytes of a file") {
        for (const uint64_t size : {8192u, 8191u, 4097u}) {
            const std::vector<ByteRange> ranges{{size - 1, 1}};
            const ReadPlan plan = plan_reads(ranges, size, 4096, 4, 1);
            REQUIRE(plan.reads.size() == 1);
            CHECK(plan.reads[0].offset == 4096);
            CHECK(plan.reads[0].length == 4096);
            CHECK(plan.reads[0].needed == size - 4096);
        }
    }
    SUBCASE("more than 1 GiB is cut even into one part") {
        const uint64_t size = (uint64_t{5} << 30) + 1;
        const std::vector<ByteRange> ranges{{0, size}};
        const ReadPlan plan = plan_reads(ranges, size, 4096, 1, 1);
        CHECK(plan.reads.size() == 6);
        uint64_t needed = 0;
        for (const PlannedRead& read : plan.reads) {
            CHECK(read.length <= uint32_t{1} << 30);
            needed += read.needed;
        }
        CHECK(needed == size);
    }
    SUBCASE("nothing") {
        CHECK(plan_reads({}, 100, 4096, 4, 1).bytes == 0);
        const std::vector<ByteRange> ranges{{100, 0}};
        CHECK(plan_reads(ranges, 100, 4096, 4, 1).reads.empty());
    }
}
