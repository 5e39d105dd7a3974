// Every byte of RAM (and VRAM) is promised here before it is taken, once, at start; printed;
// obeyed.
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
    // Reserves, or fails with no_memory naming what, how much is missing, and what is taken
    // already.
    Result<void> take(std::string_view what, uint64_t bytes);
    uint64_t left() const { return limit_ - used_; }
    uint64_t used() const { return used_; }
    uint64_t limit() const { return limit_; }
    const std::vector<BudgetLine>& lines() const { return lines_; }
    std::string table() const;  // one line a class, sum last

 private:
    std::string device_;
    uint64_t limit_;
    uint64_t used_ = 0;
    std::vector<BudgetLine> lines_;
};

// What this process can still take: the least of MemAvailable and, for its memory cgroup and every
// one above it (v1 or v2), limit - usage + page cache that the kernel would give up first.
// `root` stands for "/" in tests.
uint64_t available_ram(const std::filesystem::path& root = "/");
// What --ram defaults to: available_ram() minus headroom, the larger of 1 GiB and 10 %, but never
// more than half.
uint64_t default_ram_budget(const std::filesystem::path& root = "/");

// Refuses a budget that is more than this process can take: the machine would swap.
Result<void> check_ram(uint64_t budget, uint64_t available);

// How many expert slots `left` bytes give. Nothing left (0: the cache is off) is 0 slots; otherwise
// fewer than one token's working set (layers * top_k) is refused with the number needed (the cliff:
// below it a token evicts its own experts), and more than all experts is cut.
struct SlotRequest {
    uint64_t slot_bytes;
    int32_t layers, experts, top_k;
    uint64_t left;
};
Result<uint32_t> plan_cache_slots(const SlotRequest& request);

}  // namespace sluice
