// Checksums (xxHash XXH3, 64 bits) that tell whether bytes are the same. Not for security.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice {

uint64_t checksum(const void* data, size_t bytes);
std::string checksum_text(uint64_t value);  // 16 hex digits

class Checksum {  // of bytes that arrive in pieces
 public:
    Checksum();
    ~Checksum();
    void add(const void* data, size_t bytes);
    uint64_t value() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
