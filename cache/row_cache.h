// A small cache of table rows (Engram), direct reads behind it. Exact: a hit is the file's bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "io/checkpoint/row_reader.h"
#include "io/error.h"

namespace sluice {

class RowCache {
 public:
    // `capacity` rows kept (0: none), `request_max` distinct rows a request.
    RowCache(ReadRing& ring, const RowTable& table, uint32_t capacity, uint32_t request_max);
    ~RowCache();
    // As RowReader::request and wait, reading only what is not kept.
    Result<void> request(std::span<const uint64_t> rows, uint8_t* codes, uint8_t* scales);
    Result<void> wait();
    uint64_t hits() const;
    uint64_t asked() const;
    uint64_t bytes_read() const;
    // Bytes of memory this capacity takes, for the budget; without the reader's staging area, which
    // depends on the ring.
    static uint64_t memory(const RowTable& table, uint32_t capacity, uint32_t request_max);

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
