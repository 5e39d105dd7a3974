// Reads routed experts from the checkpoint's shards into slots, from all drives at once.
//
// An expert is six tensors (codes and scales of w1, w2, w3) in one shard: two ranges when the
// writer kept them together, up to six when it did not. The plan per expert is made once from
// header offsets; a request queues its aligned reads on the ring, demand before prefetch, and
// collect() reports the expert once its last byte is in.
//
//     request(key, slot)  -->  ring  -->  collect()  -->  {key, slot}
//
// Every drive is kept busy by itself: what may be in flight is counted for each. Where a shard has
// copies, the bytes of each expert are divided over them so that all drives are done together, by
// their present speed and by what they still have to do. Which drive gave a byte decides nothing.
//
// Engine thread only. No allocation after construction. The ring must know the files (add_file).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "io/error.h"
#include "io/ring/read_plan.h"
#include "io/ring/ring.h"

namespace sluice {

struct ExpertKey {
    int32_t layer = -1;
    int32_t expert = -1;
    bool operator==(const ExpertKey&) const = default;
    auto operator<=>(const ExpertKey&) const = default;
};

// The six tensors of one expert, in this order everywhere.
enum ExpertPart { w1_codes, w2_codes, w3_codes, w1_scales, w2_scales, w3_scales, expert_parts };

struct ExpertTuning {
    uint32_t parts = 2;                 // parallel reads a range is cut in
    uint64_t part_min = 1u << 20;       // bytes; no smaller pieces
    uint32_t in_flight_max = 8;         // experts being read at once, from a drive
    uint64_t guess_piece = 512u << 10;  // bytes; guesses are read in no larger pieces
    bool operator==(const ExpertTuning&) const = default;
};

// Where every expert is. Built by the model description (it knows the names), immutable after.
class ExpertMap {
 public:
    // `shards` outlives the map (moving the Checkpoint that owns them is fine), and so do `copies`
    // of each shard, at most copies_max - 1, of one alignment with it (align_copies).
    ExpertMap(int32_t layers, int32_t experts, const std::vector<File>& shards, ExpertTuning tuning,
              std::span<const std::vector<File>> copies = {});
    // `parts` are the six tensors; all in one shard, else unsupported; none empty. An expert is
    // added once.
    Result<void> add(ExpertKey key, const std::array<const Tensor*, expert_parts>& parts);

    int32_t layers() const { return layers_; }
    int32_t experts() const { return experts_; }
    uint64_t slot_bytes() const { return slot_bytes_; }  // of the largest, page aligned
    bool has(ExpertKey key) const;                       // the others require it
    uint64_t expert_bytes(ExpertKey key) const;          // payload of one
    const ReadPlan& plan(ExpertKey key) const;           // starts[part] = offset in the slot
    const File& file(ExpertKey key) const;
    std::span<const File* const> copies(ExpertKey key) const;  // file() and the others
    bool share_drive(ExpertKey a, ExpertKey b) const;          // some copy of each
    uint32_t drives() const { return drives_; }                // one more than the highest number
    double drives_a_layer() const;  // that hold experts of one, copies counted; the mean
    ByteRange range(ExpertKey key, ExpertPart part) const;  // in the file
    const ExpertTuning& tuning() const { return tuning_; }
    // Plans all reads anew. No reader may be at work.
    void retune(ExpertTuning tuning);

 private:
    static constexpr uint32_t not_added = UINT32_MAX;
    struct Entry {
        ReadPlan plan;
        uint32_t shard = not_added;
        std::array<ByteRange, expert_parts> ranges = {};
    };
    const Entry& entry(ExpertKey key) const;
    void plan_entry(Entry& entry);

    int32_t layers_, experts_;
    uint64_t slot_bytes_ = 0;
    std::span<const File> shards_;
    std::vector<std::vector<const File*>> files_;  // by shard
    uint32_t drives_ = 1;
    ExpertTuning tuning_;
    std::vector<Entry> entries_;  // [layers][experts]
};

enum class Urgency { demand, prefetch };

// Of the time until the next demand; so much longer a drive is kept busy with guesses: one that is
// right gains by every byte.
inline constexpr double guess_margin = 0.25;

struct Arrived {
    ExpertKey key;
    std::byte* slot;
    Urgency urgency;
    std::optional<Error> error;  // then the slot's content is undefined
    uint64_t bytes = 0;          // read for it
};

class ExpertReader {
 public:
    ExpertReader(ReadRing& ring, const ExpertMap& map);
    ~ExpertReader();

    // Queues a read into `slot` (map.slot_bytes(), page aligned; the reader's until collect()
    // reports it). At most waiting_max() requests may wait. On each drive demand reads start in the
    // order asked, few at a time (tuning.in_flight_max); a prefetch starts only while no demand
    // waits or is in flight on its drives, one after the other; with expect_demand_after() more of
    // them, prefetches_max(), while the drive is not given enough of them.
    void request(ExpertKey key, std::byte* slot, Urgency urgency);
    static constexpr uint32_t waiting_max() { return 1024; }
    static constexpr uint32_t prefetches_max() { return 4; }  // being read at once, from a drive

    // A prefetch that is wanted now: waits behind the demand reads asked for so far, before all
    // prefetches, and counts as demand; one that is being read counts as demand at once. No effect
    // on other keys.
    void promote(ExpertKey key);
    // A prefetch that nobody wants any more: what no drive has been asked for is not read, and the
    // expert is reported with Code::interrupted, once the pieces in flight are back. One whose last
    // pieces are in flight arrives. No effect on other keys.
    void cancel(ExpertKey key);
    // The next demand is expected so many seconds after the last demand read is in (or after this
    // call, if none is pending). What is with a drive cannot be called back, so until another call
    // no drive is given more of prefetches at once than it delivers by then (and guess_margin), but
    // one piece; by default, and as long as its rate is not known, it gets all of one.
    void expect_demand_after(double seconds);
    // When the last demand read came in, or the last call of expect_demand_after() if that was
    // later; nothing while demand is pending.
    std::optional<std::chrono::steady_clock::time_point> quiet_since() const;

    // Starts what may start. Never blocks. Call it between pieces of compute.
    Result<void> pump();
    // Finished experts. With `wait`, blocks until one is there unless none is asked for.
    Result<size_t> collect(std::span<Arrived> out, bool wait);

    uint32_t pending() const;  // asked for and not yet collected
    uint32_t pending_demand() const;
    // The same of those that have a drive in common with `key`: what it would have to wait for.
    uint32_t pending_beside(ExpertKey key) const;
    uint32_t pending_demand_beside(ExpertKey key) const;
    uint64_t bytes_read() const;                // payload and widening of the finished ones
    uint64_t bytes_from(uint32_t drive) const;  // of their pieces, finished or not

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
