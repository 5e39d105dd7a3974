// Drives in simulated time: each delivers its reads one after another, in proportion to their
// bytes, and the clock moves only when the test computes or waits. No bytes are delivered.
// Measurements are exact, and the same on every machine.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "io/ring/ring.h"

namespace sluice::test {

struct VirtualClock {
    double now = 0;  // seconds
};

class TimedDrive final : public RingEngine {
 public:
    // Files are assigned in turn to as many drives as there are rates (bytes per second).
    TimedDrive(VirtualClock& clock, std::vector<double> rates, double latency)
        : clock_(clock),
          rates_(std::move(rates)),
          latency_(latency),
          free_at_(rates_.size(), 0),
          busy_each_(rates_.size(), 0) {}

    double busy_s() const { return busy_; }  // time with something to read, so far
    const std::vector<double>& busy_each_s() const { return busy_each_; }  // of each drive
    double waited_s() const { return waited_; }  // time that the caller was blocked

    const char* name() const override { return "timed"; }
    std::chrono::steady_clock::time_point now() const override {
        const std::chrono::duration<double> passed(clock_.now);
        return std::chrono::steady_clock::time_point(
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(passed));
    }
    Result<void> add_file(int fd) override {
        drive_of_.emplace(fd, drive_of_.size() % rates_.size());
        return {};
    }
    Result<void> add_memory(std::span<std::byte>) override { return {}; }
    Result<void> submit(std::span<const Raw> reads) override {
        for (const Raw& read : reads) {
            const size_t drive = drive_of_.at(read.fd);
            double& free_at = free_at_[drive];
            const double begin = std::max(free_at, clock_.now);
            free_at = begin + read.length / rates_[drive];
            busy_each_[drive] += free_at - begin;
            const double done = free_at + latency_;
            in_flight_.push_back({done, {.id = read.id, .result = read.length}});
            busy_end_ = std::max(busy_end_, clock_.now);
            busy_ += std::max(0.0, done - busy_end_);
            busy_end_ = std::max(busy_end_, done);
        }
        return {};
    }
    Result<size_t> reap(std::span<RawDone> out, bool wait) override {
        const auto earlier = [](const Flight& a, const Flight& b) { return a.done < b.done; };
        std::sort(in_flight_.begin(), in_flight_.end(), earlier);
        if (wait && in_flight_.front().done > clock_.now) {
            waited_ += in_flight_.front().done - clock_.now;
            clock_.now = in_flight_.front().done;
        }
        size_t count = 0;
        while (count < out.size() && count < in_flight_.size() &&
               in_flight_[count].done <= clock_.now) {
            out[count] = in_flight_[count].raw;
            ++count;
        }
        in_flight_.erase(in_flight_.begin(), in_flight_.begin() + static_cast<ptrdiff_t>(count));
        return count;
    }

 private:
    struct Flight {
        double done;
        RawDone raw;
    };

    VirtualClock& clock_;
    std::vector<double> rates_;
    double latency_;
    std::vector<double> free_at_, busy_each_;
    std::map<int, size_t> drive_of_;
    std::vector<Flight> in_flight_;
    double busy_ = 0, busy_end_ = 0, waited_ = 0;
};

}  // namespace sluice::test
