// The ring a model is read through: its engine, the files of all drives, and which are copies.
#pragma once

#include <memory>
#include <string>

#include "engine/options.h"
#include "io/checkpoint/checkpoint.h"
#include "io/error.h"
#include "io/ring/ring.h"

namespace sluice {

struct OpenedRing {
    std::unique_ptr<ReadRing> ring;  // options.ring_depth reads in flight for each drive
    std::string name;                // "uring, O_DIRECT", and the cause of a fallback
    bool direct = false;             // all files past the page cache
};

// Drives as they are told to a person: those of the machine, or, where --io paced plays them, one a
// folder.
uint32_t drives_told(const Checkpoint& checkpoint, const EngineOptions& options);

// `checkpoint` outlives the ring. A fallback to threads is told once, and so is a mirror on a drive
// that has its shards already, unless --io paced plays a drive for it.
Result<OpenedRing> open_read_ring(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace sluice
