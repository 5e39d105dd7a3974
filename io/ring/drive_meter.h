// How fast one drive is at present, from the times at which its reads were asked for and found
// done. Pure bookkeeping: times come from the caller.
//
// A caller that computes finds completions late, and would take a drive for slow that had long
// delivered. So only stretches count that begin when the drive got its first read, or with a
// completion that was waited for, and end with one that was waited for.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

class DriveMeter {
 public:
    using Time = std::chrono::steady_clock::time_point;

    void queued(Time now);
    // `awaited`: someone stood waiting for it, so `now` is when it was done. Completions found
    // together come with the same time.
    void finished(Time now, uint64_t bytes, bool awaited);

    uint32_t in_flight() const { return in_flight_; }
    uint64_t reads() const { return reads_; }  // finished ones
    uint64_t bytes() const { return bytes_; }
    double busy_s() const { return busy_s_; }  // with at least one read in flight
    // Moving average, bytes a second; 0: not known yet.
    double rate() const { return rate_; }
    double best() const { return best_; }  // of rate(), so far
    // At less than half of its best and clearly below its mean, and has been for a while.
    bool slow() const;
    // Whether it is slow; once.
    bool slowed_down();

 private:
    void open(Time now);
    void close_if_long();
    void sample(double bytes, double took);

    uint32_t in_flight_ = 0;
    uint64_t reads_ = 0, bytes_ = 0;
    double busy_s_ = 0;
    Time busy_since_{};
    bool timed_ = false;     // a stretch is open
    Time since_{}, last_{};  // where it begins, and the last completion in it
    uint64_t stretch_bytes_ = 0;
    double rate_ = 0, best_ = 0;
    double faded_rate_ = 0, faded_ = 0;     // of samples, by time; faded_ goes to 1
    double timed_bytes_ = 0, timed_s_ = 0;  // of all samples
    uint32_t slow_samples_ = 0;             // in a row,
    double slow_s_ = 0;                     // and how long they took
    bool told_ = false;
};

}  // namespace sluice
