#include "engine/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {

std::vector<float> rope_frequencies(double base, int32_t dim) {
    std::vector<float> frequencies(dim / 2);
    for (int32_t i = 0; i < dim / 2; ++i) {
        const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
        // Computed in double and rounded to fp32 once, so that the result is the same with any
        // libm.
        const double power = std::pow(static_cast<double>(static_cast<float>(base)), exponent);
        frequencies[i] = 1.0f / static_cast<float>(power);
    }
    return frequencies;
}

std::vector<float> yarn_frequencies(double base, int32_t dim, const RopeScaling& scaling) {
    std::vector<float> frequencies = rope_frequencies(base, dim);
    const auto turns = [&](double count) {
        const double positions = static_cast<double>(scaling.original_positions);
        return dim * std::log(positions / (2 * std::numbers::pi * count)) / (2 * std::log(base));
    };
    const double low = std::max(std::floor(turns(scaling.beta_fast)), 0.0);
    double high = std::min(std::ceil(turns(scaling.beta_slow)), dim - 1.0);
    if (high == low) high += 0.001;
    for (int32_t i = 0; i < dim / 2; ++i) {
        const float place =
            (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
        const float ramp = std::clamp(place, 0.0f, 1.0f);
        const float f = frequencies[i];
        frequencies[i] = f / static_cast<float>(scaling.factor) * ramp + f * (1.0f - ramp);
    }
    return frequencies;
}

void fill_rope(std::span<const float> frequencies, int32_t first, int32_t count, float* cos,
               float* sin) {
    const size_t half = frequencies.size();
    for (int32_t row = 0; row < count; ++row) {
        const float position = static_cast<float>(std::max(first + row, 0));
        for (size_t i = 0; i < half; ++i) {
            const float angle = position * frequencies[i];
            cos[row * half + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
            sin[row * half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
        }
    }
}

}  // namespace sluice
