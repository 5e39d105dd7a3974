// Where every routed expert is in the checkpoint, and the reads that bring it into a slot.
//
// An expert is six tensors (codes and scales of w1, w2, w3) in one shard: two byte ranges if they
// were written next to each other, up to six if not. Its reads are planned once, from the offsets
// in the header.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "io/error.h"
#include "io/ring/read_plan.h"

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
    uint32_t parts = 2;                    // parallel reads that a range is cut into
    uint64_t part_min = 1u << 20;          // bytes; a part is no smaller
    uint32_t in_flight_max = 8;            // experts being read at once, per drive
    uint64_t prefetch_piece = 512u << 10;  // bytes; prefetches are read in no larger pieces
    bool operator==(const ExpertTuning&) const = default;
};

// Built by the model description, which knows the names of the tensors; then constant, but for
// retune(). Any thread may read it.
class ExpertMap {
 public:
    // `shards` must outlive the map (moving the Checkpoint that owns them is fine), and so must the
    // `copies` of each shard: at most copies_max - 1, with the same alignment (align_copies).
    ExpertMap(int32_t layers, int32_t experts, const std::vector<File>& shards, ExpertTuning tuning,
              std::span<const std::vector<File>> copies = {});
    // `parts` are the six tensors, in the order of ExpertPart. Fails with unsupported if they are
    // not all in one shard, with corrupt if one is empty. An expert is added only once.
    Result<void> add(ExpertKey key, const std::array<const Tensor*, expert_parts>& parts);

    int32_t layers() const { return layers_; }
    int32_t experts() const { return experts_; }
    uint64_t slot_bytes() const { return slot_bytes_; }  // of the largest expert, page aligned
    bool has(ExpertKey key) const;                       // required by the functions below
    uint64_t expert_bytes(ExpertKey key) const;          // without padding
    const ReadPlan& plan(ExpertKey key) const;           // starts[part]: offset in the slot
    const File& file(ExpertKey key) const;
    std::span<const File* const> copies(ExpertKey key) const;  // file() first
    bool share_drive(ExpertKey a, ExpertKey b) const;          // of some copy of each
    uint32_t drives() const { return drives_; }                // the highest number + 1
    double drives_per_layer() const;  // mean number that hold experts of a layer, copies included
    ByteRange range(ExpertKey key, ExpertPart part) const;  // in the file
    const ExpertTuning& tuning() const { return tuning_; }
    // Plans all reads again. No reader may be in use.
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

}  // namespace sluice
