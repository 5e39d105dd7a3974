#include "io/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "io/text.h"

namespace sluice {

namespace {
constexpr size_t huge_page_size = size_t{2} << 20;
}

Result<PageBuffer> PageBuffer::create(size_t bytes, std::string_view purpose) {
    PageBuffer buffer;
    if (bytes == 0) return buffer;
    const auto refuse = [&](std::string_view why) {
        return fail(Code::no_memory,
                    cat("no memory for ", purpose, ": ", size_text(bytes), " needed: ", why));
    };
    if (bytes > std::numeric_limits<size_t>::max() / 2)
        return refuse("more than the address space holds");
    const size_t size = round_up(bytes, page_size);
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return refuse(errno_text(errno));
    // Huge pages: fewer to pin and to translate. Only a hint, so a refusal is no failure.
    if (size >= huge_page_size) madvise(data, size, MADV_HUGEPAGE);
    buffer.data_ = static_cast<std::byte*>(data);
    buffer.size_ = size;
    return buffer;
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

PageBuffer::~PageBuffer() {
    if (data_ != nullptr) munmap(data_, size_);
}

std::byte* Arena::take(size_t bytes, size_t alignment) {
    const auto base = reinterpret_cast<uintptr_t>(memory_.data());
    const size_t begin = round_up(base + used_, alignment) - base;
    if (begin > memory_.size() || bytes > memory_.size() - begin) return nullptr;
    used_ = begin + bytes;
    return memory_.data() + begin;
}

}  // namespace sluice
