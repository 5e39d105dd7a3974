// Many small rows of one large table: the Engram lookups. Two regions (codes and scales), so a row
// is two small ranges; each is widened to the file's alignment, equal aligned blocks are read once.
//
// Row ids are known from token ids alone: request() before layer 0, wait() where they are needed.
// Engine thread only. No allocation after construction. Memory: 48 bytes a row of rows_max and a
// staging area for each read in flight (row_stage_bytes), at most half of the ring's depth.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "io/checkpoint/checkpoint.h"
#include "io/error.h"
#include "io/ring/ring.h"

namespace sluice {

struct RowTable {
    const File* file;
    uint64_t codes_offset;
    uint32_t codes_bytes;  // a row
    uint64_t scales_offset;
    uint32_t scales_bytes;  // a row
    uint64_t rows;
};

// What one read brings at the most: 64 KiB, or one block of the file where that is more. Also of a
// table without a file (null), which is only planned.
uint64_t row_stage_bytes(const RowTable& table);

class RowReader {
 public:
    // `rows_max` distinct rows a request at the most.
    RowReader(ReadRing& ring, const RowTable& table, uint32_t rows_max);
    ~RowReader();

    // Starts reading `rows` (distinct, each < table.rows) into codes [n][codes_bytes] and scales
    // [n][scales_bytes]. One request at a time. Reads beyond the ring's depth start in wait().
    // Requires that wait() was called for the one before.
    Result<void> request(std::span<const uint64_t> rows, uint8_t* codes, uint8_t* scales);
    // Blocks until every row of the request is in place. An error names the row; the reader is
    // free for the next request then too. Nothing to do without a request.
    Result<void> wait();

    uint64_t bytes_read() const;  // payload and widening

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
