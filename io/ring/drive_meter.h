// The present speed of one drive, measured from the times when its reads were queued and found
// finished. Pure bookkeeping: the caller supplies the times.
//
// A caller that is busy computing notices completions late and would take a fast drive for a slow
// one. Therefore a stretch of time counts only if it begins when an idle drive gets a read, or with
// a completion that was waited for, and ends with a completion that was waited for.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

class DriveMeter {
 public:
    using Time = std::chrono::steady_clock::time_point;

    void queued(Time now);
    // `awaited`: the caller was blocked waiting for it, so the read finished at `now`. Completions
    // that are found together have the same time.
    void finished(Time now, uint64_t bytes, bool awaited);

    uint32_t in_flight() const { return in_flight_; }
    uint64_t reads() const { return reads_; }  // finished
    uint64_t bytes() const { return bytes_; }
    double busy_s() const { return busy_s_; }  // with at least one read in flight
    // Moving average in bytes per second; 0: not known yet.
    double rate() const { return rate_; }
    double best() const { return best_; }  // highest rate() so far
    // At less than half of best() and clearly below the mean, and has been for a while.
    bool slow() const;
    // Whether it is slow; true only once.
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
    Time since_{}, last_{};  // its beginning, and the last completion in it
    uint64_t stretch_bytes_ = 0;
    double rate_ = 0, best_ = 0;
    double faded_rate_ = 0, faded_ = 0;     // samples weighted by age; faded_ approaches 1
    double timed_bytes_ = 0, timed_s_ = 0;  // of all samples
    uint32_t slow_samples_ = 0;             // in a row,
    double slow_s_ = 0;                     // and how long they took
    bool reported_ = false;
};

}  // namespace sluice
