// The plain form of every operation: loops that a reader can check against the specification, with
// sums in double. Never optimised. Faster kernels are judged by it; no forward pass uses it outside
// tests.
#pragma once

#include "kernels/ops.h"

namespace sluice::reference {

#define SLUICE_DECLARE(Op) void run(const Op& op);
SLUICE_PLAIN_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

}  // namespace sluice::reference
