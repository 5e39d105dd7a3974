#include "engine/model/weight_check.h"

#include <algorithm>
#include <cstring>

#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t block_bytes = 4096;

// A value is bad if its bits under `mask` are all ones. Exactly then, adding the lowest of them
// carries into the next higher bit, `carry`. Without branches, so that compilers vectorise it.
template <class T>
struct Pattern {
    T mask, lowest, carry;
    bool bad(T value) const { return (((value & mask) + lowest) & carry) != 0; }
};

constexpr Pattern<uint16_t> bf16_pattern{0x7f80, 0x0080, 0x8000};
constexpr Pattern<uint32_t> f32_pattern{0x7f800000u, 0x00800000u, 0x80000000u};
constexpr Pattern<uint8_t> fp8_pattern{0x7f, 0x01, 0x80};

template <class T>
T load(const std::byte* data) {
    T value;
    std::memcpy(&value, data, sizeof value);
    return value;
}

template <class T>
bool block_is_bad(const std::byte* data, const Pattern<T>& pattern) {
    T any = 0;
    for (uint64_t at = 0; at < block_bytes; at += sizeof(T)) {
        const T value = load<T>(data + at);
        any = static_cast<T>(any | ((value & pattern.mask) + pattern.lowest));
    }
    return (any & pattern.carry) != 0;
}

template <class T>
int64_t first_bad(const std::byte* data, uint64_t bytes, const Pattern<T>& pattern) {
    uint64_t at = 0;
    while (at + block_bytes <= bytes && !block_is_bad(data + at, pattern)) at += block_bytes;
    for (; at + sizeof(T) <= bytes; at += sizeof(T)) {
        if (pattern.bad(load<T>(data + at))) return static_cast<int64_t>(at / sizeof(T));
    }
    return -1;
}

int64_t first_large_scale(const std::byte* data, uint64_t bytes) {
    const auto large = [](std::byte scale) { return scale > std::byte{scale_byte_max}; };
    uint64_t at = 0;
    for (; at + block_bytes <= bytes; at += block_bytes) {
        std::byte largest{0};  // without branches: vectorised
        for (uint64_t i = at; i < at + block_bytes; ++i) largest = std::max(largest, data[i]);
        if (large(largest)) break;
    }
    const std::byte* found = std::find_if(data + at, data + bytes, large);
    return found == data + bytes ? -1 : found - data;
}

}  // namespace

int64_t first_bad_value(Storage storage, const std::byte* data, uint64_t bytes) {
    switch (storage) {
        case Storage::fp8:
            return first_bad(data, bytes, fp8_pattern);
        case Storage::bf16:
            return first_bad(data, bytes, bf16_pattern);
        case Storage::f32:
            return first_bad(data, bytes, f32_pattern);
        case Storage::e8m0:
            return first_large_scale(data, bytes);
        case Storage::fp4:
        case Storage::i64:
            return -1;  // every value is a number; the model judges ids
    }
    return -1;
}

std::string bad_value_text(Storage storage, std::byte value) {
    if (storage == Storage::fp8) return "is a NaN code";
    if (storage != Storage::e8m0) return "is not finite";
    const int byte = std::to_integer<int>(value);
    if (byte == 255) return "is scale byte 255 (NaN)";
    return cat("is scale byte ", byte, " (2^", byte - 127, "), far above any real weight's");
}

uint64_t value_bytes(Storage storage) {
    switch (storage) {
        case Storage::i64:
            return 8;
        case Storage::f32:
            return 4;
        case Storage::bf16:
            return 2;
        default:
            return 1;
    }
}

}  // namespace sluice
