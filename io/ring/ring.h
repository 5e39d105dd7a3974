// Reads in flight: queue them, reap them in any order. One interface over several engines
// (ring_engine.h).
//
// A read is finished when all its bytes are in place. Short reads continue where they stopped,
// EINTR and EAGAIN are retried, and a read across the end of the file is complete once it has
// delivered `needed` bytes. All of that is in ring.cpp, shared by the engines.
//
// One thread, that of the inference engine, makes the ring, queues and reaps. No allocation after
// construction.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/error.h"
#include "io/file.h"
#include "io/ring/drive_meter.h"
#include "io/ring/ring_engine.h"

namespace sluice {

// One aligned read: `offset`, `length` and `to` are multiples of File::alignment() (for `to`, at
// most a page). See read_plan.h.
struct Read {
    const File* file;  // known to the ring (add_file)
    uint64_t offset;
    std::byte* to;
    uint32_t length;  // at most 1 GiB
    uint32_t needed;  // bytes that must arrive: fewer than length only at the end of the file
    class ReadClient* client;  // notified when it is finished or has failed
    uint64_t tag;              // chosen by the client, passed back to it
};

// Several clients share one ring (expert reader, row readers, weight loader); each is notified of
// its own reads. Called only from ReadRing::reap(), never from queue() or submit(). It may queue
// new reads, but not reap.
class ReadClient {
 public:
    virtual ~ReadClient() = default;
    // nullopt: every needed byte is in place. Otherwise the error names the file, the offset, the
    // bytes wanted and got, and the meaning of errno.
    virtual void read_done(uint64_t tag, std::optional<Error> error) = 0;
};

struct RingStats {
    uint64_t reads = 0;        // queued by clients
    uint64_t bytes = 0;        // delivered
    uint64_t resubmitted = 0;  // after a short read, EINTR or EAGAIN
    double busy_s = 0;         // time with at least one read in flight
    double wait_s = 0;         // time that callers were blocked in reap(wait)
};

// One drive of a ring, for reports: what it has done so far, and its present state.
struct DriveStats {
    enum class State { in_use, slow, left_out };
    std::string folder;  // of its first file
    uint64_t reads = 0;  // finished or failed
    uint64_t bytes = 0;  // delivered
    double busy_s = 0;   // with at least one read in flight
    State state = State::in_use;
    std::string cause;  // unless in_use
    uint64_t expert_bytes =
        0;  // the part of `bytes` that is experts'; filled in by whoever reads experts
};

// Files may have copies on other drives (add_copies). A read that fails is then retried from
// another copy. Its drive is reported in one line and no longer used, unless no other copy is left.
class ReadRing {
 public:
    ReadRing(std::unique_ptr<RingEngine> engine, uint32_t depth);
    ~ReadRing();  // waits for what is in flight

    ReadRing(const ReadRing&) = delete;
    ReadRing& operator=(const ReadRing&) = delete;

    const char* engine_name() const;
    std::chrono::steady_clock::time_point now() const;  // the engine's
    // The file, its File object at its present address, and the memory must outlive the ring: the
    // kernel keeps both registered, and would mistake a reused descriptor or address for the old
    // one. Memory that was not added works too, but a little slower.
    Result<void> add_file(const File& file);
    Result<void> add_memory(std::span<std::byte> memory);
    // Files (already added) with the same bytes and the same alignment (align_copies): a read
    // planned for one of them can be served by any.
    void add_copies(std::span<const File* const> copies);

    // The drives of the files added, by File::drive().
    uint32_t drives() const { return static_cast<uint32_t>(drives_.size()); }
    const DriveMeter& drive(uint32_t drive) const { return drives_[drive].meter; }
    bool drive_failed(uint32_t drive) const { return drives_[drive].failed; }
    // By drive. A single drive is never reported as slow: there is no other to compare with.
    std::vector<DriveStats> drive_stats() const;
    // Inside ReadClient::read_done(): the drive that delivered the read.
    uint32_t delivered_by() const { return delivered_by_; }
    // `file` or the copy of it whose drive works and has the fewest reads in flight.
    const File& idlest_copy(const File& file) const;

    uint32_t depth() const { return depth_; }
    uint32_t in_flight() const { return in_flight_; }
    uint32_t free() const { return depth_ - in_flight_; }

    // Requires free() > 0. Never blocks; the read starts with the next submit() or reap().
    void queue(const Read& read);
    Result<void> submit();

    // Submits what is queued, notifies the clients of finished reads and returns how many there
    // were. With `wait`, blocks until at least one is finished, unless none is in flight. Reads
    // that clients queue meanwhile are submitted before it returns. A failed read is reported to
    // its client; the Result fails only if the ring itself is broken, permanently.
    Result<size_t> reap(bool wait);

    const RingStats& stats() const { return stats_; }

 private:
    struct Impl;
    // Handles a raw completion: the read continues (false), or its client is notified (true).
    bool advance(uint32_t id, int64_t result);
    void resubmit(uint32_t id);
    void finish(uint32_t id, std::optional<Error> error);
    struct Drive {
        DriveMeter meter;
        std::string folder;  // of its first file
        bool failed = false;
        std::string cause;  // of the first failure
    };
    Drive& drive_of(const File& file);
    const File* other_copy(const Read& read, uint64_t tried) const;
    bool read_elsewhere(uint32_t id, Error& error);
    void report_slow_drives();

    std::unique_ptr<Impl> impl_;
    uint32_t depth_;
    uint32_t in_flight_ = 0;  // including queued ones
    std::vector<Drive> drives_;
    // Of the completions being handled: when they were found, and whether the caller was blocked.
    std::chrono::steady_clock::time_point reaped_at_{};
    bool awaited_ = false;
    uint32_t delivered_by_ = 0;
    RingStats stats_;
};

}  // namespace sluice
