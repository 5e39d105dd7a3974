// The ring a model is read through: its engine, the files of all drives, and which are copies.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "io/checkpoint.h"
#include "io/error.h"
#include "io/ring.h"

namespace sluice {

struct OpenedRing {
    std::unique_ptr<ReadRing> ring;  // options.ring_depth reads in flight for each drive
    std::string name;                // "uring, O_DIRECT", and the cause of a fallback
    bool direct = false;             // all files past the page cache
};

// `checkpoint` outlives the ring. A fallback to threads is told once.
Result<OpenedRing> open_read_ring(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace sluice
