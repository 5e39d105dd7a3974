// Whether stored values can be weights at all. At a multiple of a drive's rate: it sees every byte
// that is loaded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model.h"

namespace sluice {

// Index of the first value in `bytes` that cannot be a weight, or -1: an FP8 NaN code, a scale byte
// of 255, a BF16 or FP32 that is not finite. `data` needs no alignment.
int64_t first_bad_value(Storage storage, const std::byte* data, uint64_t bytes);

// What is wrong with such a value: "is a NaN code".
const char* bad_value_text(Storage storage);

uint64_t value_bytes(Storage storage);  // 1 for fp4, whose values are checked by the byte

}  // namespace sluice
