// Reads routed experts from the checkpoint's shards into slots, from all drives at once.
//
// A request queues the planned reads of an expert (expert_map.h) on the ring, demand before
// prefetch; collect() reports the expert once its last byte has arrived.
//
//     request(key, slot)  -->  ring  -->  collect()  -->  {key, slot}
//
// Each drive is kept busy independently: the limits on what is in flight are per drive. Where a
// shard has copies, the bytes of each expert are divided among them so that all drives finish
// together, given their present speed and the work they have left. Results never depend on which
// drive delivered a byte.
//
// Engine thread only. No allocation after construction. The ring must know the files (add_file).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "io/checkpoint/expert_map.h"
#include "io/error.h"
#include "io/ring/ring.h"

namespace sluice {

enum class Urgency { demand, prefetch };

// A drive is kept busy with prefetches for longer than the time until the next demand, by this part
// of it: every byte of a prefetch that turns out to be needed is a gain.
inline constexpr double prefetch_margin = 0.25;

struct Arrived {
    ExpertKey key;
    std::byte* slot;
    Urgency urgency;
    std::optional<Error> error;  // if set, the slot's content is undefined
    uint64_t bytes = 0;          // read for it
};

class ExpertReader {
 public:
    ExpertReader(ReadRing& ring, const ExpertMap& map);
    ~ExpertReader();

    // Queues a read into `slot` (map.slot_bytes(), page aligned; owned by the reader until
    // collect() reports it). At most waiting_max() requests may wait. On each drive, demand reads
    // start in the order requested, up to tuning.in_flight_max at a time. A prefetch starts only
    // while no demand waits or is in flight on its drives, one at a time; after
    // expect_demand_after(), up to prefetches_max() at a time while they are less than the drive
    // can deliver.
    void request(ExpertKey key, std::byte* slot, Urgency urgency);
    static constexpr uint32_t waiting_max() { return 1024; }
    static constexpr uint32_t prefetches_max() { return 4; }  // per drive

    // Turns a prefetch into demand: it waits behind the demand reads requested so far and before
    // all prefetches; one that is being read counts as demand at once. No effect on other keys.
    void promote(ExpertKey key);
    // Cancels a prefetch: what is not in flight yet is not read, and once the pieces in flight are
    // back, the expert is reported with Code::interrupted. One whose last pieces are in flight
    // arrives normally. No effect on other keys.
    void cancel(ExpertKey key);
    // Says that the next demand is expected `seconds` after the last demand read has arrived (or
    // after this call, if none is pending). A read in flight cannot be cancelled, so until the next
    // call each drive is given at most what it delivers by then, plus prefetch_margin, but at least
    // one piece. By default, and while its rate is unknown, it is given one whole prefetch.
    void expect_demand_after(double seconds);
    // When the last demand read arrived or expect_demand_after() was last called, whichever is
    // later; nullopt while demand is pending.
    std::optional<std::chrono::steady_clock::time_point> quiet_since() const;

    // Starts what may start. Never blocks. Call it between pieces of computation.
    Result<void> pump();
    // Fills `out` with finished experts and returns how many. With `wait`, blocks until there is at
    // least one, unless none is pending.
    Result<size_t> collect(std::span<Arrived> out, bool wait);

    uint32_t pending() const;  // requested and not yet collected
    uint32_t pending_demand() const;
    // The same, only of experts that share a drive with `key`: those that it may have to wait for.
    uint32_t pending_beside(ExpertKey key) const;
    uint32_t pending_demand_beside(ExpertKey key) const;
    uint64_t bytes_read() const;                // by finished experts, padding included
    uint64_t bytes_from(uint32_t drive) const;  // by all pieces that have arrived

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
