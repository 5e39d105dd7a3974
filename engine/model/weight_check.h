// Whether stored values can be weights at all. At a multiple of a drive's rate: it sees every byte
// that is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/model/model.h"

namespace sluice {

// A scale of 2^16 makes weights of up to 393,216 (FP4) or 2.9e7 (FP8), where trained ones are below
// 100 (scales of 2^-2 and less). It is as far from overflow: an expert of such weights alone, over
// a normalised input of 2^13 numbers and 2^12 inside, stays below 2^113. What is above it is damage
// that would end as a logit that is not finite.
constexpr uint8_t scale_byte_max = 127 + 16;

// Index of the first value in `bytes` that cannot be a weight, or -1: an FP8 NaN code, a scale byte
// above scale_byte_max, a BF16 or FP32 that is not finite. `data` needs no alignment.
int64_t first_bad_value(Storage storage, const std::byte* data, uint64_t bytes);

// What is wrong with such a value, of which `value` is the first byte: "is a NaN code".
std::string bad_value_text(Storage storage, std::byte value);

uint64_t value_bytes(Storage storage);  // 1 for fp4, whose values are checked by the byte

}  // namespace sluice
