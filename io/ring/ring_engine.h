// The engines below ReadRing, which move raw completions: io_uring (ring_uring.cpp), threads that
// call pread (ring_threads.cpp), simulated drives over either (ring_paced.h), and those of tests.
// To add one: derive from RingEngine, give it a value of IoEngine and a case in make_ring_engine().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/error.h"

namespace sluice {

// Results are those of the kernel, as they come: bytes read, or -errno. Engines neither retry nor
// interpret them. Used by one thread, that of the ring.
class RingEngine {
 public:
    struct Raw {
        int fd;
        uint64_t offset;
        std::byte* to;
        uint32_t length;
        uint32_t id;         // chosen by ReadRing
        uint32_t drive = 0;  // of the file
    };
    struct RawDone {
        uint32_t id;
        int64_t result;
    };
    virtual ~RingEngine() = default;
    virtual const char* name() const = 0;
    // The clock for times of reads. Not the steady clock where time is simulated.
    virtual std::chrono::steady_clock::time_point now() const {
        return std::chrono::steady_clock::now();
    }
    // Both may register with the kernel what they are given; a refusal is not an error.
    virtual Result<void> add_file(int fd) = 0;
    virtual Result<void> add_memory(std::span<std::byte> memory) = 0;
    virtual Result<void> submit(std::span<const Raw> reads) = 0;  // all of them, at most `depth`
    // Fills `out` (not empty) with finished reads and returns how many. With `wait`, which requires
    // a read in flight, blocks until there is at least one.
    virtual Result<size_t> reap(std::span<RawDone> out, bool wait) = 0;
};

enum class IoEngine { automatic, uring, threads, paced };

// A drive to be simulated: see ring_paced.h.
struct DrivePace {
    double bytes_s = 0;
    double latency_s = 0;
    bool operator==(const DrivePace&) const = default;
};

struct RingOptions {
    IoEngine engine = IoEngine::automatic;
    uint32_t depth = 64;                // reads in flight, 1 to 4096
    uint32_t threads = 0;               // of the threads engine; 0: depth, at most 32
    std::vector<DrivePace> paces = {};  // of the paced engine: one for every drive, or one for all
};

struct RingChoice {
    std::unique_ptr<RingEngine> engine;
    // Why io_uring is not used (sysctl, seccomp, an old kernel), in words. Empty if it is used, or
    // was not wanted.
    std::string cause;
};
// `automatic` falls back to threads and gives the reason in `cause`; where io_uring is requested by
// name, that is an error. io_uring is tried with one read before it is returned. `paced` reads with
// threads, because its files are usually in memory: whoever reads them copies the bytes, and that
// must not be the caller's thread.
Result<RingChoice> make_ring_engine(const RingOptions& options);
Result<std::unique_ptr<RingEngine>> make_uring_engine(const RingOptions& options);
Result<std::unique_ptr<RingEngine>> make_threads_engine(const RingOptions& options);

}  // namespace sluice
