#include "io/ring/drive_meter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>

using namespace sluice;

namespace {

constexpr uint64_t read_bytes = 1u << 20;

DriveMeter::Time at(double ms) {
    return DriveMeter::Time{} + std::chrono::nanoseconds(static_cast<int64_t>(ms * 1e6));
}

// A drive that delivers reads one by one, and a caller that keeps some in flight, waits for them,
// sometimes computes, and sometimes gets the processor late.
struct BusyCaller {
    DriveMeter meter;
    std::mt19937_64 random;
    double ms_a_read = 2.6;  // 0.4 GB/s
    double now = 0, drive_free = 0;
    std::deque<double> done;  // finish times of the reads in flight

    explicit BusyCaller(uint64_t seed) : random(seed) {}
    bool chance(double share) { return std::uniform_real_distribution<>()(random) < share; }
    double about(double ms) { return std::exponential_distribution<>(1 / ms)(random); }
    void step() {
        while (done.size() < 32) {
            meter.queued(at(now));
            drive_free = std::max(drive_free, now) + ms_a_read;
            done.push_back(drive_free);
        }
        if (chance(0.02)) {  // delivery was late, too: completions come in a burst
            double until = now + about(40);
            for (double& one : done) {
                if (one < until) one = until += 0.02;
            }
            drive_free = std::max(drive_free, done.back());
        }
        if (chance(0.1)) now += about(20);
        const bool waits = done.front() > now + 0.01;
        if (waits) now = done.front() + (chance(0.15) ? about(40) : 0.005);
        while (!done.empty() && done.front() <= now) {
            meter.finished(at(now), read_bytes, waits);
            done.pop_front();
        }
    }
};

}  // namespace

TEST_CASE("meter: only reads that were waited for are timed") {
    DriveMeter meter;
    for (int i = 0; i < 16; ++i) meter.queued(at(0));
    // One MiB per millisecond; some are found a second late and are not timed.
    for (int i = 1; i <= 8; ++i) meter.finished(at(i), read_bytes, true);
    CHECK(meter.rate() == doctest::Approx(1.048576e9));
    for (int i = 9; i <= 11; ++i) meter.finished(at(1000), read_bytes, false);
    meter.finished(at(1001), read_bytes, true);
    for (int i = 1; i <= 4; ++i) meter.finished(at(1001 + i), read_bytes, true);
    CHECK(meter.rate() == doctest::Approx(1.048576e9));
    CHECK(meter.in_flight() == 0);
    CHECK(meter.bytes() == 16 * read_bytes);
    CHECK_FALSE(meter.slowed_down());
    for (int batch = 0; batch < 200; ++batch) {
        for (int i = 0; i < 4; ++i) meter.queued(at(2000 + batch * 100));
        for (int i = 1; i <= 4; ++i) {
            meter.finished(at(2000 + batch * 100 + i * (batch < 100 ? 1 : 4)), read_bytes, true);
        }
        if (batch < 150) CHECK_FALSE(meter.slow());  // not for long enough yet
    }
    CHECK(meter.slowed_down());
    CHECK(meter.best() == doctest::Approx(1.048576e9));
    CHECK_FALSE(meter.slowed_down());  // reported once
    CHECK(meter.slow());
    for (int batch = 0; batch < 10; ++batch) {
        for (int i = 0; i < 4; ++i) meter.queued(at(30000 + batch * 100));
        for (int i = 1; i <= 4; ++i) meter.finished(at(30000 + batch * 100 + i), read_bytes, true);
    }
    CHECK_FALSE(meter.slow());  // it recovered
}

TEST_CASE("meter: a caller that gets the processor late does not make a drive look slow") {
    DriveMeter meter;
    double now = 0;
    // One MiB per millisecond; the caller sleeps through 32 of them, then finds one, then the
    // others.
    for (int round = 0; round < 20; round++, now += 100) {
        for (int i = 0; i < 64; ++i) meter.queued(at(now));
        for (int i = 1; i <= 32; ++i) meter.finished(at(now + i), read_bytes, true);
        meter.finished(at(now + 64), read_bytes, true);
        for (int i = 1; i < 32; ++i) meter.finished(at(now + 64.05), read_bytes, true);
    }
    CHECK(meter.best() < 1.3e9);
    CHECK(meter.rate() == doctest::Approx(1.048576e9).epsilon(0.2));
    for (int batch = 0; batch < 10; batch++, now += 100) {
        for (int i = 0; i < 32; ++i) meter.queued(at(now));
        for (int i = 1; i <= 32; ++i) meter.finished(at(now + i), read_bytes, true);
        CHECK_FALSE(meter.slow());
    }
    for (int batch = 0; batch < 20; batch++, now += 200) {
        for (int i = 0; i < 32; ++i) meter.queued(at(now));
        for (int i = 1; i <= 32; ++i) meter.finished(at(now + 4 * i), read_bytes, true);
    }
    CHECK(meter.slowed_down());
}

TEST_CASE("meter: a steady drive is never reported as slow, one that slows down soon is") {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        BusyCaller caller(seed);
        bool slow = false;
        for (int step = 0; step < 2000; ++step) {
            caller.step();
            slow = slow || caller.meter.slow();
        }
        CHECK_FALSE(slow);
        caller.ms_a_read *= 5;
        const double begin = caller.now;
        while (!caller.meter.slow() && caller.now < begin + 60000) caller.step();
        CHECK(caller.meter.slow());
    }
}
