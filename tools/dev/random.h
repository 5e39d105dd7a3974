// Random numbers for development programs: the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace sluice {

inline uint64_t mix(uint64_t x) {  // splitmix64: turns a counter into 64 random bits
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

class Random {
 public:
    explicit Random(uint64_t seed) : at_(mix(seed)) {}
    double uniform() { return static_cast<double>(mix(at_++) >> 11) * 0x1p-53; }  // [0, 1)
    double normal() {
        const double radius = std::sqrt(-2 * std::log(1 - uniform()));
        return radius * std::cos(2 * std::numbers::pi * uniform());
    }
    uint32_t below(uint32_t end) { return static_cast<uint32_t>(uniform() * end); }

 private:
    uint64_t at_;
};

}  // namespace sluice
