#include "io/ring/drive_meter.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "io/clock.h"

namespace sluice {

namespace {

constexpr uint64_t small_read = 32u << 10;  // up to here, time is latency rather than rate
// A sample spans so many bytes or so much time.
constexpr uint64_t stretch_bytes = 4u << 20;
constexpr double stretch_s = 0.01;
// The rate is averaged over about this time: if the caller gets the processor late, it sees a long
// wait and then a burst, of which only the mean says something.
constexpr double memory_s = 0.05;
constexpr double trusted = 0.4;   // part of that time to be known before the rate counts for best()
constexpr double clearly = 0.75;  // part of the mean; noise alone stays above it
constexpr uint32_t slow_samples_min = 6;  // slow ones in a row
constexpr double slow_s_min = 1;  // that span so long: on a busy machine any drive is slow at times

}  // namespace

void DriveMeter::queued(Time now) {
    if (in_flight_++ > 0) return;
    busy_since_ = now;
    open(now);
}

void DriveMeter::open(Time now) {
    timed_ = true;
    since_ = last_ = now;
    stretch_bytes_ = 0;
}

void DriveMeter::close_if_long() {
    const double took = to_seconds(last_ - since_);
    if (took <= 0 || (stretch_bytes_ < stretch_bytes && took < stretch_s)) return;
    sample(static_cast<double>(stretch_bytes_), took);
    open(last_);
}

void DriveMeter::finished(Time now, uint64_t bytes, bool awaited) {
    assert(in_flight_ > 0);
    ++reads_;
    bytes_ += bytes;
    busy_s_ += to_seconds(now - busy_since_);
    busy_since_ = now;
    if (!awaited || bytes < small_read) {
        timed_ = false;
    } else if (!timed_) {
        open(now);
    } else {
        if (now > last_) close_if_long();
        // Completions found together had all finished by then.
        if (now > since_) stretch_bytes_ += bytes;
        last_ = now;
    }
    if (--in_flight_ == 0 && timed_) close_if_long();
}

void DriveMeter::sample(double bytes, double took) {
    const double kept = std::exp(-took / memory_s);
    faded_rate_ = faded_rate_ * kept + bytes / took * (1 - kept);
    faded_ = faded_ * kept + 1 - kept;
    rate_ = faded_rate_ / faded_;
    if (faded_ >= trusted) best_ = std::max(best_, rate_);
    const bool slow =
        timed_s_ > 0 && rate_ < best_ / 2 && rate_ < clearly * timed_bytes_ / timed_s_;
    slow_samples_ = slow ? slow_samples_ + 1 : 0;
    slow_s_ = slow ? slow_s_ + took : 0;
    timed_bytes_ += bytes;
    timed_s_ += took;
}

bool DriveMeter::slow() const {
    return slow_samples_ >= slow_samples_min && slow_s_ >= slow_s_min;
}

bool DriveMeter::slowed_down() {
    if (reported_ || !slow()) return false;
    reported_ = true;
    return true;
}

}  // namespace sluice
