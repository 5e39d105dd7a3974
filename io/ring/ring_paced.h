// Drives of a given speed, simulated with files that can be read faster, so that any machine can
// show how one with such drives would run.
//
//     submit -> inner engine -> held back until the modelled drive would have delivered -> reap
//
// The model, per drive: a read needs `latency_s` before its bytes begin to move, the latencies of
// several reads overlap, and all bytes go through one pipe of `bytes_s` in the order submitted. The
// files must be readable faster than that, otherwise the simulated drive is slower than it claims.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/ring/ring.h"

namespace sluice {

// "8.8GB": a size (see parse_size) per second, 1KB to 1000TB. Errors (usage) name the text.
Result<uint64_t> parse_drive_rate(std::string_view text);
// "8.8GB", "8.8GB,80us", or one for each drive joined by "+": "8.8GB+4.4GB,100us". A rate as above,
// a latency in ns, us, ms or s. Errors (usage) name the text.
Result<std::vector<DrivePace>> parse_paces(std::string_view text);
// The rate of all drives together.
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
// The steady clock. Waits end within a few microseconds of their time: they sleep, and spin at the
// end.
std::unique_ptr<PaceClock> make_pace_clock();

class PacedEngine final : public RingEngine {
 public:
    // `paces` by drive (File::drive()); a single one applies to every drive. `depth` is that of the
    // ring.
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

    // Changes the pace of a drive for reads submitted from now on.
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
    bool shared_pace_;       // drives that are not in pipes_ yet get the pace of the first
    std::vector<Time> due_;  // by read id
    std::vector<Held> held_;
    std::vector<RawDone> scratch_;
    size_t running_ = 0;  // in the inner engine
    std::string name_;
};

}  // namespace sluice
