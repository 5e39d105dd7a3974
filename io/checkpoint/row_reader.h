// Reads many small rows of one large table, for the Engram lookups. The table has two regions,
// codes and scales, so a row is two small ranges. Each is widened to the file's alignment, and a
// block that several rows share is read once.
//
// The row ids depend only on token ids: call request() before layer 0 and wait() where the rows are
// needed. Engine thread only. No allocation after construction. Memory: 48 bytes per row of
// rows_max and a staging area (row_stage_bytes) for each read in flight, at most half of the ring's
// depth.
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
    uint32_t codes_bytes;  // per row
    uint64_t scales_offset;
    uint32_t scales_bytes;  // per row
    uint64_t rows;
};

// The most that one read brings: 64 KiB, or one block of the file if that is larger. The file may
// be null, for a table that is only planned.
uint64_t row_stage_bytes(const RowTable& table);

class RowReader {
 public:
    // A request has at most `rows_max` distinct rows.
    RowReader(ReadRing& ring, const RowTable& table, uint32_t rows_max);
    ~RowReader();

    // Starts reading `rows` (distinct, each < table.rows) into codes [n][codes_bytes] and scales
    // [n][scales_bytes]. One request at a time: requires that wait() was called for the previous
    // one. Reads beyond the ring's depth start in wait().
    Result<void> request(std::span<const uint64_t> rows, uint8_t* codes, uint8_t* scales);
    // Blocks until every row of the request is in place. An error names the row; the reader can
    // take the next request then, too. Returns at once without a request.
    Result<void> wait();

    uint64_t bytes_read() const;  // rows and padding

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
