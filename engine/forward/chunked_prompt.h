// A prompt in chunks that go through each layer one after another before the next layer begins: the
// experts of a layer are read once for all chunks, as far as the cache can keep them. Bit-equal to
// chunks that go through all layers one by one.
//
// While a chunk waits for its turn, the chunk store in host memory (ChunkStore) holds what outlives
// a layer. A backend in host memory works on the store itself; a device has one workspace, which
// holds the chunk that runs.
#pragma once

#include <span>

#include "engine/forward/pass.h"
#include "io/error.h"

namespace sluice {

// `chunks` in order, each with a copy of the runtime's workspace, linked by Pass::next. Errors as
// in forward().
Result<void> forward_chunk_group(std::span<Pass> chunks);

}  // namespace sluice
