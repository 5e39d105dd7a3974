// A set of token ids.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

class TokenMask {
 public:
    // Ids 0 to size - 1, none of them in the set.
    explicit TokenMask(size_t size = 0) : size_(size), words_((size + 63) / 64) {}

    size_t size() const { return size_; }
    void clear() { words_.assign(words_.size(), 0); }
    void fill() {
        words_.assign(words_.size(), ~uint64_t{0});
        if (size_ % 64 != 0) words_.back() >>= 64 - size_ % 64;
    }
    // Require an id of the range.
    void add(int32_t id) { word(id) |= bit(id); }
    void remove(int32_t id) { word(id) &= ~bit(id); }
    // Requires a mask of the same size.
    void add(const TokenMask& other) {
        for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    }
    bool has(int32_t id) const {
        if (id < 0 || static_cast<size_t>(id) >= size_) return false;
        return (words_[static_cast<size_t>(id) / 64] & bit(id)) != 0;
    }
    size_t count() const {
        size_t sum = 0;
        for (uint64_t bits : words_) sum += static_cast<size_t>(std::popcount(bits));
        return sum;
    }
    // Calls `visit` with each id of the set, lowest first.
    template <class Visit>
    void each(Visit visit) const {
        for (size_t i = 0; i < words_.size(); ++i) {
            for (uint64_t bits = words_[i]; bits != 0; bits &= bits - 1)
                visit(static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(bits))));
        }
    }
    bool operator==(const TokenMask& other) const = default;

 private:
    static uint64_t bit(int32_t id) { return uint64_t{1} << (id % 64); }
    uint64_t& word(int32_t id) { return words_[static_cast<size_t>(id) / 64]; }

    size_t size_;
    std::vector<uint64_t> words_;
};

}  // namespace sluice
