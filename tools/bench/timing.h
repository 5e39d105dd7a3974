// Timing helpers of the benchmarks.
#pragma once

#include <cstdint>

#include "io/clock.h"
#include "io/median.h"

namespace sluice {

// Calls `once` for at least `seconds`; returns calls per second, the first call not counted.
template <class Once>
double rounds_a_second(double seconds, Once once) {
    once();
    const auto start = Clock::now();
    int64_t rounds = 0;
    double passed = 0;
    do {
        once();
        ++rounds;
        passed = seconds_since(start);
    } while (passed < seconds);
    return static_cast<double>(rounds) / passed;
}

}  // namespace sluice
