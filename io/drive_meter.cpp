#include "io/drive_meter.h"

#include <algorithm>
#include <cassert>

namespace sluice {

namespace {

constexpr uint64_t small_read = 32u << 10;  // its time is latency, not rate
// A sample takes that many bytes, or that long.
constexpr uint64_t stretch_bytes = 4u << 20;
constexpr double stretch_s = 0.01;
// Of a new sample: a quarter, and more the longer it took, so that a drive that has become slow is
// known for it after a tenth of a second, few as its bytes are.
constexpr double weight = 0.25;
constexpr double memory_s = 0.05;
constexpr uint32_t samples_to_trust = 4;
constexpr uint32_t samples_to_tell = 6;  // slow ones, in a row

double seconds(std::chrono::steady_clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

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
    const double took = seconds(last_ - since_);
    if (took <= 0 || (stretch_bytes_ < stretch_bytes && took < stretch_s)) return;
    sample(static_cast<double>(stretch_bytes_) / took, took);
    open(last_);
}

void DriveMeter::finished(Time now, uint64_t bytes, bool awaited) {
    assert(in_flight_ > 0);
    ++reads_;
    bytes_ += bytes;
    busy_s_ += seconds(now - busy_since_);
    busy_since_ = now;
    if (!awaited || bytes < small_read) {
        timed_ = false;
    } else if (!timed_) {
        open(now);
    } else {
        if (now > last_) close_if_long();
        // Completions found together were done by then, all of them.
        if (now > since_) stretch_bytes_ += bytes;
        last_ = now;
    }
    if (--in_flight_ == 0 && timed_) close_if_long();
}

void DriveMeter::sample(double bytes_s, double took) {
    ++samples_;
    // The first ones by their mean, so that one odd start does not linger.
    rate_ += (bytes_s - rate_) * std::max({weight, 1.0 / samples_, took / (took + memory_s)});
    if (samples_ >= samples_to_trust) best_ = std::max(best_, rate_);
    // Reads that were done long before their caller got the processor back make a sample too fast,
    // and so may the best one be. The mean over all stretches is not.
    timed_bytes_ += bytes_s * took;
    timed_s_ += took;
    slow_samples_ = rate_ < std::min(best_ / 2, timed_bytes_ / timed_s_) ? slow_samples_ + 1 : 0;
}

bool DriveMeter::slow() const {
    return slow_samples_ >= samples_to_tell;
}

bool DriveMeter::slowed_down() {
    if (told_ || !slow()) return false;
    told_ = true;
    return true;
}

}  // namespace sluice
