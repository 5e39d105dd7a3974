// Opens the read ring of a model: its I/O engine, the files on all drives, and which are copies.
#pragma once

#include <memory>
#include <string>

#include "engine/options.h"
#include "io/checkpoint/checkpoint.h"
#include "io/error.h"
#include "io/ring/ring.h"

namespace sluice {

struct OpenedRing {
    std::unique_ptr<ReadRing> ring;  // options.ring_depth reads in flight per drive
    std::string name;                // "uring, O_DIRECT", and the cause of a fallback
    bool direct = false;             // all files are read past the page cache
};

// Number of drives for reports: real ones, or, if --io paced simulates them, one per folder.
uint32_t drives_reported(const Checkpoint& checkpoint, const EngineOptions& options);

// `checkpoint` outlives the ring. Warns once about a fallback to threads, and about a mirror on a
// drive that already has its shards, unless --io paced simulates a drive for it.
Result<OpenedRing> open_read_ring(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace sluice
