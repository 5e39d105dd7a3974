// Writes snapshots to disk on a thread of its own, so that answers do not wait for the drive.
//
//   write(key, snapshot)  ->  queue of at most queue_max  ->  DiskSnapshots::write()
//
// The destructor and flush() wait until everything queued is written.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/prompt_cache/disk_snapshots.h"
#include "engine/prompt_cache/memory_snapshots.h"

namespace sluice {

class SnapshotWriter {
 public:
    static constexpr size_t queue_max = 8;

    // `disk` outlives the writer.
    explicit SnapshotWriter(const DiskSnapshots& disk);
    ~SnapshotWriter();
    SnapshotWriter(const SnapshotWriter&) = delete;
    SnapshotWriter& operator=(const SnapshotWriter&) = delete;

    // Returns at once. False if the queue is full: the drive is slower than the answers, and this
    // one stays in memory only. What is queued or being written already is not queued again.
    bool write(SnapshotKey key, SharedSnapshot snapshot);
    void flush();
    uint64_t written() const;

 private:
    struct Item {
        SnapshotKey key;
        SharedSnapshot snapshot;
    };
    void work();

    const DiskSnapshots& disk_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Item> queue_;  // the first one is being written
    uint64_t written_ = 0;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace sluice
