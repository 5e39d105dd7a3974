// DeviceExperts: the experts in VRAM. Which are resident, which slot the next upload uses, and
// which are evicted.
//
//   begin(layer, ids)  ->  the missing ones, for ExpertCache  ->  upload() each as it arrives  ->
//   flush()  ->  compute  ->  used()
//
// Two kinds of slots, as in RAM: `cache_slots`, managed by the policy and filled on demand only,
// and `transit_slots` that experts pass through (no cache, prompts). A prompt fills only cache
// slots that never held anything.
//
// Nothing here waits for the device. A slot's next upload is ordered after the compute that last
// read it, and compute after its upload; the host memory that an upload reads is free again when
// its mark has passed (Backend::uploads_done). Engine thread only. No allocation after
// construction.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/expert_cache.h"
#include "cache/tier.h"
#include "kernels/backend.h"

namespace sluice {

struct DeviceExpertsOptions {
    uint32_t cache_slots = 0;
    uint32_t transit_slots = 4;  // at least 2
    std::string policy = default_policy;
    uint64_t seed = 0;
    // Fill the cache slot of an evicted expert with 0xff until the next one arrives, as in RAM.
    bool poison = poison_default;
};

class DeviceExperts {
 public:
    // Device bytes per slot: every tensor is aligned to 256 bytes.
    static uint64_t slot_bytes(const ExpertMap& map);
    static Result<std::unique_ptr<DeviceExperts>> create(const DeviceExpertsOptions& options,
                                                         const ExpertMap& map, Backend& backend,
                                                         int32_t rows_w1, int32_t cols_w1);

    // Starts a layer's demand and assigns places to the missing experts. `missing` receives
    // those that are not resident, in order; the others stay until the next begin().
    void begin(int32_t layer, std::span<const int32_t> experts, DemandKind kind,
               std::vector<int32_t>& missing);
    bool resident(ExpertKey key) const { return tier_.find(key) >= 0; }
    // Requires a resident expert: found by begin(), or uploaded in this demand.
    Result<ExpertWeights> weights(ExpertKey key) const;

    // Starts copying an expert from a RAM slot with the layout of map.plan(key). Compute started
    // after flush() may use its weights. At most transit_slots uploads between two calls of used().
    Result<void> upload(ExpertKey key, const std::byte* host);
    // Compute started from now on sees all uploads so far. Returns their mark.
    uint64_t flush();
    // Call after launching: the compute started so far is what reads the slots handed out.
    void used();
    void token_passed() { tier_.token_passed(); }
    // What the VRAM keeps, the expert that decode used last first.
    std::vector<ExpertKey> by_recency() const { return tier_.by_recency(); }

    const CacheStats& stats() const { return stats_; }
    uint32_t cache_slots() const { return tier_.entries(); }
    uint32_t transit_slots() const {
        return static_cast<uint32_t>(slots_.size()) - tier_.entries();
    }

 private:
    struct Slot {
        std::byte* memory = nullptr;
        ExpertKey key;
        uint64_t last_use = 0;  // compute mark
        bool in_use = false;    // handed out since the last used()
    };
    struct Part {
        uint64_t offset, bytes;
    };

    DeviceExperts(const DeviceExpertsOptions& options, const ExpertMap& map, Backend& backend,
                  std::unique_ptr<Policy> policy);
    Slot* find(ExpertKey key);
    void hand_out(uint32_t slot);
    void drop_unfilled();
    void poison(const Slot& slot);

    const ExpertMap& map_;
    Backend& backend_;
    Tier tier_;
    int32_t inner_ = 0, dim_ = 0;
    Part parts_[expert_parts] = {};
    std::vector<Slot> slots_;        // cache slots first
    std::vector<std::byte> poison_;  // one slot's worth, or empty
    uint32_t transit_next_ = 0;
    std::vector<uint32_t> handed_;   // slots in use since the last used()
    std::vector<ExpertKey> placed_;  // assigned in begin(), to be filled by upload()
    CacheStats stats_;
};

}  // namespace sluice
