// Measuring by the clock, for what measures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/clock.h"
#include "io/median.h"

namespace sluice {

// Rounds of `once` for at least `seconds`, the first one not counted: rounds a second.
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
