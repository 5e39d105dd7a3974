// Snapshots in memory, up to a number of bytes; the least recently used goes first. One that
// somebody else still holds (the writer, until its file is complete) stays. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "engine/prompt_cache/snapshot_key.h"

namespace sluice {

using SharedSnapshot = std::shared_ptr<const std::vector<std::byte>>;

class MemorySnapshots {
 public:
    explicit MemorySnapshots(uint64_t bytes_max) : bytes_max_(bytes_max) {}

    // Drops what is necessary for `bytes` more. False, and nothing dropped, if they cannot fit.
    bool make_room(uint64_t bytes);
    // False if it does not fit. Replaces one of the same key.
    bool put(SnapshotKey key, SharedSnapshot snapshot);
    SharedSnapshot use(SnapshotKey key);  // null: none
    void remove(SnapshotKey key);

    std::vector<SnapshotKey> keys() const;
    uint64_t bytes() const { return bytes_; }
    uint64_t bytes_max() const { return bytes_max_; }

 private:
    struct Entry {
        SnapshotKey key;
        SharedSnapshot snapshot;
    };
    std::list<Entry>::iterator find(SnapshotKey key);
    void erase(std::list<Entry>::iterator entry);

    std::list<Entry> entries_;  // the most recently used first
    uint64_t bytes_ = 0, bytes_max_;
};

}  // namespace sluice
