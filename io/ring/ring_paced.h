// A drive of a given speed, played by files that are read faster: so that any machine can stand in
// for one with that drive, or with several.
//
//     submit -> inner engine -> held back until the modelled drive would have delivered -> reap
//
// The model, a drive at a time: a read needs `latency_s` before its bytes begin to move, reads
// queue beside each other, and all their bytes go through one pipe of `bytes_s`, in the order
// submitted. The files must be readable faster than that, or the stand-in is slower than it says.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/ring/ring.h"

namespace sluice {

// "8.8GB": a size (see parse_size) that a drive gives a second, 1KB to 1000TB. usage names the
// text.
Result<uint64_t> parse_drive_rate(std::string_view text);
// "8.8GB", "8.8GB,80us", one a drive joined by "+": "8.8GB+4.4GB,100us". A rate is as
// above, a latency a number of ns, us, ms or s. Errors (usage) name the text.
Result<std::vector<DrivePace>> parse_paces(std::string_view text);
// Of all drives together.
double paced_bytes_s(std::span<const DrivePace> paces, uint32_t drives);
// "8.8 GB/s, 80 us + 4.4 GB/s".
std::string paces_text(std::span<const DrivePace> paces);

// Time as the paced engine sees it; tests have their own.
class PaceClock {
 public:
    using Time = std::chrono::steady_clock::time_point;
    virtual ~PaceClock() = default;
    virtual Time now() = 0;
    virtual void wait_until(Time time) = 0;
};
// The steady clock. Waits end within a few microseconds of their time: all but the last stretch is
// slept, that one is spun.
std::unique_ptr<PaceClock> make_pace_clock();

class PacedEngine final : public RingEngine {
 public:
    // `paces` by drive (File::drive()); a single one is every drive's. `depth` is the ring's.
    PacedEngine(std::unique_ptr<RingEngine> inner, std::vector<DrivePace> paces, uint32_t depth,
                std::unique_ptr<PaceClock> clock = make_pace_clock());

    const char* name() const override { return name_.c_str(); }
    PaceClock::Time now() const override { return clock_->now(); }
    Result<void> add_file(int fd) override { return inner_->add_file(fd); }
    Result<void> add_memory(std::span<std::byte> memory) override {
        return inner_->add_memory(memory);
    }
    Result<void> submit(std::span<const Raw> reads) override;
    Result<size_t> reap(std::span<RawDone> out, bool wait) override;

    // For reads submitted from now on: a drive that slows down.
    void set_pace(uint32_t drive, DrivePace pace);

 private:
    using Time = PaceClock::Time;
    struct Pipe {
        DrivePace pace;
        Time free_at;  // when its last byte so far is through
    };
    struct Held {
        Time due;
        RawDone done;
        bool operator<(const Held& other) const { return due > other.due; }  // a min-heap
    };
    Pipe& pipe(uint32_t drive);
    Result<void> take_inner(bool wait);
    size_t release(std::span<RawDone> out);

    std::unique_ptr<RingEngine> inner_;
    std::unique_ptr<PaceClock> clock_;
    std::vector<Pipe> pipes_;
    bool shared_pace_;       // drives not in pipes_ yet are like the first
    std::vector<Time> due_;  // by read id
    std::vector<Held> held_;
    std::vector<RawDone> scratch_;
    size_t running_ = 0;  // in the inner engine
    std::string name_;
};

}  // namespace sluice
