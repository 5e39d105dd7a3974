#include "engine/model/numpy_random.h"

#include <array>

namespace sluice {
namespace {

__extension__ using uint128 = unsigned __int128;

constexpr uint128 make128(uint64_t high, uint64_t low) {
    return static_cast<uint128>(high) << 64 | low;
}

// SeedSequence: mixes a seed into four 64-bit words.
std::array<uint64_t, 4> seed_words(uint64_t seed) {
    uint32_t constant = 0x43b0d7e5;
    auto hash = [&](uint32_t v) {
        v ^= constant;
        constant *= 0x931e8875;
        v *= constant;
        return v ^ v >> 16;
    };
    auto mix = [](uint32_t x, uint32_t y) {
        const uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;
        return r ^ r >> 16;
    };
    std::array<uint32_t, 4> pool{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0,
                                 0};
    for (uint32_t& word : pool) word = hash(word);
    for (size_t source = 0; source < 4; ++source) {
        for (size_t target = 0; target < 4; ++target) {
            if (target != source) pool[target] = mix(pool[target], hash(pool[source]));
        }
    }
    std::array<uint64_t, 4> words{};
    constant = 0x8b51f9dd;
    for (size_t i = 0; i < 8; ++i) {
        uint32_t v = pool[i % 4] ^ constant;
        constant *= 0x58f38ded;
        v *= constant;
        v ^= v >> 16;
        words[i / 2] |= static_cast<uint64_t>(v) << (i % 2 * 32);
    }
    return words;
}

class Pcg64 {
 public:
    explicit Pcg64(uint64_t seed) {
        const auto words = seed_words(seed);
        increment_ = make128(words[2], words[3]) << 1 | 1;
        step();
        state_ += make128(words[0], words[1]);
        step();
    }

    uint64_t next() {
        step();
        const auto high = static_cast<uint64_t>(state_ >> 64);
        const uint64_t folded = high ^ static_cast<uint64_t>(state_);
        const unsigned turn = static_cast<unsigned>(high >> 58);
        return folded >> turn | folded << (-turn & 63);
    }

 private:
    void step() { state_ = state_ * make128(0x2360ed051fc65da4, 0x4385df649fccf645) + increment_; }
    uint128 state_ = 0, increment_ = 0;
};

}  // namespace

std::vector<uint64_t> numpy_integers(uint64_t seed, uint64_t bound, size_t count) {
    Pcg64 generator(seed);
    std::vector<uint64_t> draws;
    while (draws.size() < count) {
        // The high half of number * bound is uniform if numbers whose low half is below the
        // threshold are drawn again.
        uint128 product = static_cast<uint128>(generator.next()) * bound;
        if (static_cast<uint64_t>(product) < bound) {
            const uint64_t threshold = -bound % bound;
            while (static_cast<uint64_t>(product) < threshold)
                product = static_cast<uint128>(generator.next()) * bound;
        }
        draws.push_back(static_cast<uint64_t>(product >> 64));
    }
    return draws;
}

}  // namespace sluice
