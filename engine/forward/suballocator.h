// Cuts one allocation into typed pieces. Run once without memory to learn the size, then with it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/memory.h"

namespace sluice {

class Carver {
 public:
    explicit Carver(std::byte* base = nullptr) : base_(base) {}

    template <class T>
    void take(T*& piece, uint64_t count) {
        piece = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
        used_ = round_up(used_ + count * sizeof(T), 256);
    }
    uint64_t used() const { return used_; }
    // What is never needed together may lie in the same place: carve copies of this one, then go on
    // behind the largest.
    void pass(const Carver& other) { used_ = other.used_ > used_ ? other.used_ : used_; }

 private:
    std::byte* base_;
    uint64_t used_ = 0;
};

}  // namespace sluice
