// RowCache: a small cache of table rows (Engram) in front of direct reads. Exact: a hit returns the
// file's bytes. Engine thread only; no allocation after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "io/checkpoint/row_reader.h"
#include "io/error.h"

namespace sluice {

class RowCache {
 public:
    // Keeps `capacity` rows (0: none); at most `request_max` distinct rows per request.
    RowCache(ReadRing& ring, const RowTable& table, uint32_t capacity, uint32_t request_max);
    ~RowCache();
    // Like RowReader::request() and wait(), but reads only the rows that are not kept.
    Result<void> request(std::span<const uint64_t> rows, uint8_t* codes, uint8_t* scales);
    Result<void> wait();
    uint64_t hits() const;
    uint64_t asked() const;
    uint64_t bytes_read() const;
    // Bytes of memory for this capacity, for the budget; without the reader's staging area, which
    // depends on the read ring.
    static uint64_t memory(const RowTable& table, uint32_t capacity, uint32_t request_max);

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
