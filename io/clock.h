// The clock that durations are measured with, and seconds as a number.
#pragma once

#include <chrono>

namespace sluice {

using Clock = std::chrono::steady_clock;

inline double to_seconds(Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

inline double seconds_since(Clock::time_point start) {
    return to_seconds(Clock::now() - start);
}

}  // namespace sluice
