// Rotary frequencies and tables (section 3.1): fp32 frequencies, fp32 angles, cos and sin of those.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/config.h"

namespace sluice {

// base^(-2i/dim), i = 0 .. dim/2 - 1.
std::vector<float> rope_frequencies(double base, int32_t dim);
// The same with YaRN: high frequencies kept, low ones divided by the factor, a ramp between.
std::vector<float> yarn_frequencies(double base, int32_t dim, const RopeScaling& scaling);

// cos and sin [count][frequencies] for positions first .. first + count - 1. Angles of negative
// positions are those of 0: such rows are never used.
void fill_rope(std::span<const float> frequencies, int32_t first, int32_t count, float* cos,
               float* sin);

}  // namespace sluice
