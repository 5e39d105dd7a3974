// The median of measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace sluice {

// The larger of the two middle values if their number is even; not empty.
inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace sluice
