// The forward pass: the same control flow for a prompt and for decode. n tokens go through the
// embedding, every layer of the model and the head (head.h). Engine thread only.
#pragma once

#include "engine/forward/pass.h"
#include "io/error.h"

namespace sluice {

// Errors: io, device, numerical, interrupted; nothing is in flight then, and the caller rolls the
// state back.
Result<void> forward(Pass& pass);

// ---- steps, also of a chunked prompt

// Starts reading what is needed before anything is computed, or known to be.
void first_reads(const Pass& pass, RouteLog& log);
// Rotation tables and the embedding.
void begin_pass(Pass& pass);
Result<void> finish_pass(Pass& pass);
// Adds to a numerical failure which command looks for its cause.
Result<void> explain(const Pass& pass, Result<void> done);

}  // namespace sluice
