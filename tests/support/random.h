// Repeatable random inputs for kernel tests, shaped so that a check means something: values have
// outliers, codes have no NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/numerics.h"

namespace sluice::test {

class Random {
 public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {  // splitmix64
        uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    int below(int count) { return int(next() % uint64_t(count)); }
    float uniform(float low, float high) {
        return low + (high - low) * float(double(next() >> 11) * 0x1p-53);
    }
    float normal() {
        double sum = 0;
        for (int i = 0; i < 12; ++i) sum += uniform(0, 1);
        return float(sum - 6);
    }
    // Normal; one in 64 is up to 50 times as large.
    float activation() { return normal() * (below(64) == 0 ? uniform(1, 50) : 1.0f); }

    std::vector<float> floats(size_t count, float low, float high) {
        std::vector<float> v(count);
        for (float& x : v) x = uniform(low, high);
        return v;
    }
    std::vector<bf16> activations(size_t count) {
        std::vector<bf16> v(count);
        for (bf16& x : v) x = to_bf16(activation());
        return v;
    }
    std::vector<bf16> weights(size_t count) {  // around 1, as norm weights are
        std::vector<bf16> v(count);
        for (bf16& x : v) x = to_bf16(1 + 0.3f * normal());
        return v;
    }
    std::vector<uint8_t> bytes(size_t count) {
        std::vector<uint8_t> v(count);
        for (uint8_t& x : v) x = uint8_t(next());
        return v;
    }
    std::vector<uint8_t> e4m3(size_t count) {
        std::vector<uint8_t> v(count);
        for (uint8_t& x : v) {
            x = uint8_t(next());
            if ((x & 0x7f) == 0x7f) x ^= 1;
        }
        return v;
    }
    std::vector<uint8_t> e8m0(size_t count, int low, int high) {
        std::vector<uint8_t> v(count);
        for (uint8_t& x : v) x = uint8_t(low + below(high - low + 1));
        return v;
    }

 private:
    uint64_t state_;
};

}  // namespace sluice::test
