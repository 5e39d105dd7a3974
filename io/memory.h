// Page-aligned anonymous memory. One mapping serves the drive (O_DIRECT), the CPU and, once the
// CUDA backend has registered it, the GPU's copy engine. Never grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/error.h"

namespace sluice {

inline constexpr size_t page_size = 4096;

constexpr uint64_t round_up(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}
constexpr uint64_t round_down(uint64_t value, uint64_t to) {
    return value / to * to;
}

// Owns one anonymous mapping, zero-filled by the kernel on first touch, so that only used pages are
// resident; huge pages are requested. size() is `bytes` rounded up to whole pages. Move only.
// create() fails with no_memory, naming `purpose` and the size.
class PageBuffer {
 public:
    PageBuffer() = default;
    static Result<PageBuffer> create(size_t bytes, std::string_view purpose);
    PageBuffer(PageBuffer&& other) noexcept;
    PageBuffer& operator=(PageBuffer&& other) noexcept;
    ~PageBuffer();

    std::byte* data() const { return data_; }
    size_t size() const { return size_; }
    std::span<std::byte> span() const { return {data_, size_}; }

 private:
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

// Hands out pieces of one buffer, front to back. Not thread safe.
class Arena {
 public:
    Arena() = default;
    explicit Arena(std::span<std::byte> memory) : memory_(memory) {}

    // The address is a multiple of `alignment`, a power of two. Returns nullptr when full: the
    // caller computed the sizes, so that is a bug or a budget to report.
    std::byte* take(size_t bytes, size_t alignment = 64);
    size_t used() const { return used_; }
    size_t size() const { return memory_.size(); }

 private:
    std::span<std::byte> memory_;
    size_t used_ = 0;
};

}  // namespace sluice
