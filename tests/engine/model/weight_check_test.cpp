#include "engine/model/weight_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace sluice;

namespace {

// The definition, value by value.
int64_t by_definition(Storage storage, const std::byte* data, uint64_t bytes) {
    const uint64_t size = value_bytes(storage);
    for (uint64_t i = 0; (i + 1) * size <= bytes; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, data + i * size, size);
        if (storage == Storage::bf16) bits <<= 16;
        float value = 0;
        std::memcpy(&value, &bits, 4);
        const bool bad = storage == Storage::fp8    ? (bits & 0x7f) == 0x7f
                         : storage == Storage::e8m0 ? bits > 143
                         : storage == Storage::fp4  ? false
                                                    : !std::isfinite(value);
        if (bad) return static_cast<int64_t>(i);
    }
    return -1;
}

}  // namespace

TEST_CASE("weight check: the first bad value, at any place and any alignment") {
    std::mt19937_64 random(1);
    for (const Storage storage :
         {Storage::fp8, Storage::e8m0, Storage::bf16, Storage::f32, Storage::fp4}) {
        CAPTURE(static_cast<int>(storage));
        const uint64_t size = value_bytes(storage);
        for (int round = 0; round < 300; ++round) {
            CAPTURE(round);
            const uint64_t count = random() % 9000;
            const uint64_t shift = random() % 4;
            std::vector<std::byte> memory(shift + count * size);
            std::byte* data = memory.data() + shift;
            // Small exponents: valid in every format.
            for (std::byte& byte : memory) byte = static_cast<std::byte>(random() & 0x3e);
            CHECK(first_bad_value(storage, data, count * size) == -1);
            const uint64_t bad = count == 0 ? 0 : random() % 3;
            for (uint64_t i = 0; i < bad; ++i) {
                const uint64_t at = random() % count;
                const uint32_t bits = storage == Storage::f32    ? 0x7f800000u | random() % 8
                                      : storage == Storage::bf16 ? 0xff80u | random() % 8
                                      : storage == Storage::e8m0 ? 144u + random() % 112
                                                                 : 0xffu;
                std::memcpy(data + at * size, &bits, size);
            }
            REQUIRE(first_bad_value(storage, data, count * size) ==
                    by_definition(storage, data, count * size));
        }
    }
}
