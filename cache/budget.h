// Budget: every byte of RAM is reserved here once, at start, before it is allocated; a second
// Budget does the same for VRAM. The reservations are printed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

struct BudgetLine {
    std::string what;    // "dense weights", "expert cache, 120 slots"
    std::string device;  // "ram", "vram"
    uint64_t bytes;
};

class Budget {
 public:
    explicit Budget(std::string device, uint64_t limit)
        : device_(std::move(device)), limit_(limit) {}
    // Reserves, or fails (no_memory) with the name, the bytes missing and what is reserved already.
    Result<void> take(std::string_view what, uint64_t bytes);
    uint64_t left() const { return limit_ - used_; }
    uint64_t used() const { return used_; }
    uint64_t limit() const { return limit_; }
    const std::vector<BudgetLine>& lines() const { return lines_; }
    std::string table() const;  // one line per reservation, then their sum

 private:
    std::string device_;
    uint64_t limit_;
    uint64_t used_ = 0;
    std::vector<BudgetLine> lines_;
};

// What this process can still allocate: the smallest of MemAvailable and, for its memory cgroup and
// each of its parents (v1 or v2), limit - usage + page cache that the kernel would reclaim first.
// `root` replaces "/" in tests.
uint64_t available_ram(const std::filesystem::path& root = "/");
// The default of --ram: available_ram() minus headroom, which is the larger of 1 GiB and 10 %, but
// never more than half.
uint64_t default_ram_budget(const std::filesystem::path& root = "/");

// Refuses a budget larger than what this process can allocate: the machine would swap.
Result<void> check_ram(uint64_t budget, uint64_t available);

// How many expert slots fit in `left` bytes, at most one for each expert. No bytes (the cache is
// off) give 0 slots. Otherwise fewer slots than one token uses (layers * top_k) are refused with
// the number needed, because a token would evict its own experts.
struct SlotRequest {
    uint64_t slot_bytes;
    int32_t layers, experts, top_k;
    uint64_t left;
};
Result<uint32_t> plan_cache_slots(const SlotRequest& request);

}  // namespace sluice
