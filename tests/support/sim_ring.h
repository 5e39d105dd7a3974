// An engine whose drives misbehave on purpose, by a seed. A failing seed is the bug report.
//
//     ReadRing ring(std::make_unique<SimEngine>(seed, SimFaults{.short_read = 0.2}), depth);
//
// The bytes are read from the real file in reap(), which never blocks. What a short or failed read
// did not deliver is overwritten with noise, so that using it is noticed.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "io/memory.h"
#include "io/ring/ring.h"

namespace sluice {

struct SimFaults {          // probabilities, of a completion
    double short_read = 0;  // below 1, or a read may never finish
    double again = 0;       // -EAGAIN or -EINTR; below 1
    double eio = 0;
    double reorder = 0;  // of completing any read in flight instead of the oldest
    double late = 0;     // of holding back what reap() without wait could have returned
    // A bad spot: reads that touch [bad_begin, bad_end) of any file fail with EIO.
    uint64_t bad_begin = 0, bad_end = 0;
};

class SimEngine final : public RingEngine {
 public:
    explicit SimEngine(uint64_t seed, SimFaults faults = {}) : random_(seed), faults_(faults) {}

    // The results of the next completions, instead of random ones: -errno, or a maximum of bytes.
    void script(std::vector<int64_t> results) {
        script_.insert(script_.end(), results.begin(), results.end());
    }
    // `drive` has blocks of this size, as a disk with 4096-byte sectors has: other reads fail with
    // EINVAL, and a read stops inside a block only at the end of the file.
    void set_block(uint32_t drive, uint32_t bytes) { blocks_[drive] = bytes; }
    // From now on every read of `drive` fails with EIO.
    void fail(uint32_t drive) { failed_.insert(drive); }
    const std::vector<Raw>& submitted() const { return submitted_; }  // all of them, in order

    const char* name() const override { return "simulated"; }
    Result<void> add_file(int) override { return {}; }
    Result<void> add_memory(std::span<std::byte>) override { return {}; }

    Result<void> submit(std::span<const Raw> reads) override {
        in_flight_.insert(in_flight_.end(), reads.begin(), reads.end());
        submitted_.insert(submitted_.end(), reads.begin(), reads.end());
        return {};
    }

    Result<size_t> reap(std::span<RawDone> out, bool wait) override {
        assert(!out.empty() && (!wait || !in_flight_.empty()));
        size_t count = 0;
        while (count < out.size() && !in_flight_.empty()) {
            if (!(wait && count == 0) && chance(faults_.late)) break;
            const size_t pick = chance(faults_.reorder) ? below(in_flight_.size()) : 0;
            const Raw read = in_flight_[pick];
            in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(pick));
            out[count++] = {.id = read.id, .result = complete(read)};
        }
        return count;
    }

 private:
    bool chance(double probability) {
        return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
    }
    size_t below(size_t limit) { return random_() % limit; }

    static bool made_of_blocks(const Raw& read, uint64_t block) {
        const auto to = reinterpret_cast<uintptr_t>(read.to);
        return read.offset % block == 0 && read.length % block == 0 &&
               to % std::min<uint64_t>(block, page_size) == 0;
    }

    int64_t complete(const Raw& read) {
        int64_t limit = read.length;
        if (!script_.empty()) {
            limit = std::min<int64_t>(limit, script_.front());
            script_.pop_front();
        } else if (chance(faults_.again)) {
            limit = below(2) == 0 ? -EAGAIN : -EINTR;
        } else if (chance(faults_.eio)) {
            limit = -EIO;
        } else if (chance(faults_.short_read)) {
            limit = static_cast<int64_t>(1 + below(read.length));
        }
        if (const auto found = blocks_.find(read.drive); found != blocks_.end()) {
            const int64_t block = found->second;
            if (!made_of_blocks(read, found->second)) return -EINVAL;
            if (limit > 0) limit = std::max(block, limit / block * block);
        }
        const bool bad =
            failed_.contains(read.drive) ||
            (read.offset < faults_.bad_end && read.offset + read.length > faults_.bad_begin);
        if (bad && limit >= 0) limit = -EIO;
        int64_t got = 0;
        if (limit > 0) {
            got = pread(read.fd, read.to, read.length, static_cast<off_t>(read.offset));
            if (got < 0) limit = -errno;
        }
        const int64_t result = limit < 0 ? limit : std::min(got, limit);
        const auto kept = static_cast<size_t>(std::max<int64_t>(result, 0));
        std::memset(read.to + kept, static_cast<int>(random_() & 0xff), read.length - kept);
        return result;
    }

    std::mt19937_64 random_;
    SimFaults faults_;
    std::deque<int64_t> script_;
    std::map<uint32_t, uint32_t> blocks_;  // by drive
    std::set<uint32_t> failed_;            // drives
    std::vector<Raw> in_flight_, submitted_;
};

}  // namespace sluice
