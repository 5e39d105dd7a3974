// The experts in VRAM: which are resident, which slot the next upload takes, who leaves.
//
//   begin(layer, ids)  ->  the missing ones, for the RAM tier  ->  upload() each as it arrives  ->
//   flush()  ->  compute  ->  used()
//
// Two kinds of slots, as in RAM: `cache_slots` that the policy manages, filled on demand only, and
// `transit_slots` that experts pass through (no cache, prompts). A prompt fills only cache slots
// that never held anything.
//
// Nothing here waits for the device. A slot's next upload is ordered behind the compute that last
// read it, compute is ordered behind its upload; the host memory an upload reads is free when its
// mark has passed (Backend::uploads_done). Engine thread only. No allocation of memory after
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
    // A cache slot whose expert leaves is filled with 0xff until the next arrives, as in RAM.
    bool poison = poison_default;
};

class DeviceExperts {
 public:
    // Device bytes a slot takes: every tensor 256-byte aligned.
    static uint64_t slot_bytes(const ExpertMap& map);
    static Result<std::unique_ptr<DeviceExperts>> create(const DeviceExpertsOptions& options,
                                                         const ExpertMap& map, Backend& backend,
                                                         int32_t rows_w1, int32_t cols_w1);

    // Starts a layer's demand, and gives the missing ones their places. `missing` receives those of
    // `experts` that are not resident, in order; the others stay until the next begin().
    void begin(int32_t layer, std::span<const int32_t> experts, DemandKind kind,
               std::vector<int32_t>& missing);
    bool resident(ExpertKey key) const { return tier_.find(key) >= 0; }
    // Of a resident expert (begin() found it, or upload() brought it in this demand).
    Result<ExpertWeights> weights(ExpertKey key) const;

    // Starts copying an expert from a RAM slot, laid out as map.plan(key) says. Its weights may be
    // used by compute that is started after flush(). At most transit_slots uploads between two
    // calls of used().
    Result<void> upload(ExpertKey key, const std::byte* host);
    // Lets compute from here on see the uploads so far. Returns their mark.
    uint64_t flush();
    // Compute started so far reads what was resident or uploaded: call it after launching.
    void used();
    void token_passed() { tier_.token_passed(); }

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
    std::vector<std::byte> poison_;  // a slot of it, or none
    uint32_t transit_next_ = 0;
    std::vector<uint32_t> handed_;   // slots in use since the last used()
    std::vector<ExpertKey> placed_;  // entries given in begin(), to be filled by upload()
    CacheStats stats_;
};

}  // namespace sluice
