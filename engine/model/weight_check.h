// Checks whether stored values can be weights at all. Runs several times faster than a drive reads,
// because every loaded byte passes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model/model.h"

namespace sluice {

// A scale of 2^16 gives weights of up to 393,216 (FP4) or 2.9e7 (FP8), while trained weights are
// below 100 (scales of 2^-2 and less). It is still far from overflow: an expert with only such
// weights, over a normalised input of 2^13 values and an inner width of 2^12, stays below 2^113.
// A larger scale is damage, which would end in a logit that is not finite.
constexpr uint8_t scale_byte_max = 127 + 16;

// Index of the first value that cannot be a weight, or -1: an FP8 NaN code, a scale byte above
// scale_byte_max, a BF16 or FP32 that is not finite. `data` needs no alignment.
int64_t first_bad_value(Storage storage, const std::byte* data, uint64_t bytes);

// What is wrong with such a value, given its first byte: "is a NaN code".
std::string bad_value_text(Storage storage, std::byte value);

uint64_t value_bytes(Storage storage);  // 1 for fp4, which is checked byte by byte

}  // namespace sluice
