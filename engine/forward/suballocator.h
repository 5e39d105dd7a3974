// Cuts one allocation into typed, aligned pieces. The same code runs twice: without memory to learn
// how many bytes it needs, then with the memory to set the pointers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/memory.h"

namespace sluice {

class Suballocator {
 public:
    // Null: only counts bytes; every piece is null. Does not own `base`.
    explicit Suballocator(std::byte* base = nullptr) : base_(base) {}

    template <class T>
    void take(T*& piece, uint64_t count) {
        piece = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
        used_ = round_up(used_ + count * sizeof(T), 256);
    }
    uint64_t used() const { return used_; }  // bytes
    // Buffers that are never in use at the same time may share a place: take them from copies of
    // this suballocator, then skip past the end of each copy.
    void skip_past(const Suballocator& other) { used_ = other.used_ > used_ ? other.used_ : used_; }

 private:
    std::byte* base_;
    uint64_t used_ = 0;
};

}  // namespace sluice
