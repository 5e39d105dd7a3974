// Checks whether the values of a checkpoint can be weights at all, tensor by tensor, as its bytes
// are read: the loader's check (engine/model/weight_check.h) for every tensor, including routed
// experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/model/weight_check.h"
#include "io/checkpoint/checkpoint.h"
#include "io/error.h"

namespace sluice {

class ValueCheck {
 public:
    // `checkpoint` must outlive it.
    explicit ValueCheck(const Checkpoint& checkpoint);

    // Takes the bytes of all shards in order, in pieces of any size.
    void look(uint32_t shard, uint64_t offset, std::span<const std::byte> bytes);

    // One line per damaged tensor, with its first bad value, in file order.
    const std::vector<std::string>& damaged() const { return damaged_; }
    // The shards that hold damaged tensors.
    const std::set<uint32_t>& shards() const { return shards_; }

 private:
    struct Watched {
        const Tensor* tensor;
        Storage storage;
    };
    void look_at(const Watched& watched, uint64_t from, std::span<const std::byte> bytes);
    void judge(const Watched& watched, uint64_t element, std::span<const std::byte> bytes);

    std::vector<Watched> watched_;  // by shard and offset
    size_t next_ = 0;               // the first that has not ended
    bool next_is_bad_ = false;
    std::vector<std::byte> begun_;  // the first bytes of a value that two pieces share
    std::vector<std::string> damaged_;
    std::set<uint32_t> shards_;
};

// Reads the checkpoint's tables of ids, such as the experts of each token, and checks them as the
// loader does (ModelDescription::check_weights). Tables of a wrong dtype or shape, or of a config
// that is not understood, are not its business. The error names the first bad entry.
Result<void> check_ids(const Checkpoint& checkpoint);

}  // namespace sluice
