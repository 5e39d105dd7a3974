// Timing helpers of the benchmarks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace sluice {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {  // not empty
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

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
