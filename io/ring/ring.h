// Reads in flight: queue them, reap them in any order. One interface, several engines: io_uring,
// a pool of threads with pread, a paced drive over either (ring_paced.h), and (tests) a simulated
// one.
//
// What a finished read is: all its bytes are there. Short reads go on where they stopped, EINTR and
// EAGAIN are asked again, a read over end-of-file delivers up to it and is complete when it
// delivered `needed` bytes; all that is in ring.cpp, shared by the engines, which only move raw
// completions.
//
// One thread makes the ring, queues and reaps (the engine's). No allocation after construction.
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

namespace sluice {

// One aligned read. `offset`, `length` and `to` obey the file's alignment (see read_plan.h).
struct Read {
    const File* file;  // one of those given to add_file
    uint64_t offset;
    std::byte* to;
    uint32_t length;  // at most 1 GiB
    uint32_t needed;  // bytes that must arrive: less than length only at the end of the file
    class ReadClient* client;  // told when all of it is there, or that it failed
    uint64_t tag;              // the client's, returned to it
};

// Several clients share one ring (expert reader, row readers, weight loader): each is told of its
// own reads. Called from ReadRing::reap() only, never from queue() or submit(); it may queue new
// reads, but not reap.
class ReadClient {
 public:
    virtual ~ReadClient() = default;
    // `error` names file, offset, wanted, got, and what errno means; nullopt: every needed byte is
    // in place.
    virtual void read_done(uint64_t tag, std::optional<Error> error) = 0;
};

// The raw engine below ReadRing. submit() may be called with several reads; results come as the
// kernel gives them: bytes read or -errno. The id is ReadRing's.
class RingEngine {
 public:
    struct Raw {
        int fd;
        uint64_t offset;
        std::byte* to;
        uint32_t length;
        uint32_t id;
        uint32_t drive = 0;  // the file's
    };
    struct RawDone {
        uint32_t id;
        int64_t result;
    };
    virtual ~RingEngine() = default;
    virtual const char* name() const = 0;
    // By which times of reads are taken; not the steady clock's where time is simulated.
    virtual std::chrono::steady_clock::time_point now() const {
        return std::chrono::steady_clock::now();
    }
    // Both may register what they are given, and go on without where that is refused.
    virtual Result<void> add_file(int fd) = 0;
    virtual Result<void> add_memory(std::span<std::byte> memory) = 0;
    virtual Result<void> submit(std::span<const Raw> reads) = 0;  // all of them, at most `depth`
    // Fills `out` (not empty) and returns how many. With `wait`, which requires a read in flight,
    // at least one.
    virtual Result<size_t> reap(std::span<RawDone> out, bool wait) = 0;
};

enum class IoEngine { automatic, uring, threads, paced };

// A drive to be played: see ring_paced.h.
struct DrivePace {
    double bytes_s = 0;
    double latency_s = 0;
    bool operator==(const DrivePace&) const = default;
};

struct RingOptions {
    IoEngine engine = IoEngine::automatic;
    uint32_t depth = 64;                // reads in flight at the most, 1..4096
    uint32_t threads = 0;               // of the thread engine; 0: depth, at most 32
    std::vector<DrivePace> paces = {};  // of the paced engine: one for all drives, or one each
};

struct RingChoice {
    std::unique_ptr<RingEngine> engine;
    // Why io_uring is not used, in words: sysctl, seccomp, old kernel. Empty if it is or was not
    // asked for.
    std::string cause;
};
// automatic falls back to threads and says why in `cause`; uring asked for by name is an error
// then. Each engine is proved by one read before it is returned. paced reads with threads: files in
// memory, its usual ground, are copied by whoever reads them, and that must not be the caller.
Result<RingChoice> make_ring_engine(const RingOptions& options);
Result<std::unique_ptr<RingEngine>> make_uring_engine(const RingOptions& options);
Result<std::unique_ptr<RingEngine>> make_threads_engine(const RingOptions& options);

struct RingStats {
    uint64_t reads = 0;        // asked for by callers
    uint64_t bytes = 0;        // delivered
    uint64_t resubmitted = 0;  // after a short read, EINTR or EAGAIN
    double busy_s = 0;         // time with at least one read in flight
    double wait_s = 0;         // time a caller stood still in reap(wait)
};

// One drive of a ring, for reports: what it did so far, and how it is now.
struct DriveStats {
    enum class State { in_use, slow, left_out };
    std::string folder;  // of its first file
    uint64_t reads = 0;  // finished or failed on it
    uint64_t bytes = 0;  // delivered
    double busy_s = 0;   // with at least one read in flight
    State state = State::in_use;
    std::string cause;          // of a state that is not in_use
    uint64_t expert_bytes = 0;  // of those delivered; entered by who reads experts
};

// Files may have copies on other drives (add_copies). A read that fails is then tried on another
// copy, with one line, and its drive is left out of what is read from then on, unless no other copy
// is left.
class ReadRing {
 public:
    ReadRing(std::unique_ptr<RingEngine> engine, uint32_t depth);
    ~ReadRing();  // waits for what is in flight

    ReadRing(const ReadRing&) = delete;
    ReadRing& operator=(const ReadRing&) = delete;

    const char* engine_name() const;
    std::chrono::steady_clock::time_point now() const;  // the engine's
    // The file, its File object where it is, and the memory must outlive the ring: the kernel keeps
    // hold of both, and a descriptor or address used again would be taken for the first.
    // Memory that was not added works too, a little slower.
    Result<void> add_file(const File& file);
    Result<void> add_memory(std::span<std::byte> memory);
    // Files added before that hold the same bytes, of one alignment (align_copies): reads planned
    // for one of them go to any.
    void add_copies(std::span<const File* const> copies);

    // The drives of the files added, by File::drive().
    uint32_t drives() const { return static_cast<uint32_t>(drives_.size()); }
    const DriveMeter& drive(uint32_t drive) const { return drives_[drive].meter; }
    bool drive_failed(uint32_t drive) const { return drives_[drive].failed; }
    // By drive. Where there is but one, it is never called slow: nothing takes its place.
    std::vector<DriveStats> drive_stats() const;
    // The drive that delivered the read, while its client is told.
    uint32_t delivered_by() const { return delivered_by_; }
    // Of `file` and its copies the one whose drive has the fewest reads in flight, and is well.
    const File& idlest_copy(const File& file) const;

    uint32_t depth() const { return depth_; }
    uint32_t in_flight() const { return in_flight_; }
    uint32_t free() const { return depth_ - in_flight_; }

    // Requires free() > 0. Never blocks; the read starts with the next submit() or reap().
    void queue(const Read& read);
    Result<void> submit();

    // Submits what is queued, then tells the clients of finished reads and returns how many. With
    // `wait`, blocks until at least one is finished unless none is in flight. Reads that clients
    // queue meanwhile are submitted before it returns. A failed read is its client's; the Result
    // fails only when the ring itself is broken, for good.
    Result<size_t> reap(bool wait);

    const RingStats& stats() const { return stats_; }

 private:
    struct Impl;
    // What becomes of a raw completion: the read goes on, or its client is told.
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
    void tell_slow_drives();

    std::unique_ptr<Impl> impl_;
    uint32_t depth_;
    uint32_t in_flight_ = 0;  // queued ones included
    std::vector<Drive> drives_;
    // Of the completions at hand: when they were found, and whether someone stood waiting.
    std::chrono::steady_clock::time_point reaped_at_{};
    bool awaited_ = false;
    uint32_t delivered_by_ = 0;
    RingStats stats_;
};

}  // namespace sluice
