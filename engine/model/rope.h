// Rotary frequencies and tables (deepseek-v41.md section 3.1): frequencies and angles in fp32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/config.h"

namespace sluice {

// base^(-2i/dim), i = 0 .. dim/2 - 1.
std::vector<float> rope_frequencies(double base, int32_t dim);
// The same with YaRN: high frequencies stay, low ones are divided by the factor, with a ramp
// between.
std::vector<float> yarn_frequencies(double base, int32_t dim, const RopeScaling& scaling);

// Fills cos and sin [count][frequencies] for positions first .. first + count - 1. Negative
// positions get the angles of 0; their rows are never used.
void fill_rope(std::span<const float> frequencies, int32_t first, int32_t count, float* cos,
               float* sin);

}  // namespace sluice
