// The plain form of every operation: loops a reader can check against the text, sums in double.
// Never optimised. What a faster kernel is judged by; not used in a forward pass outside tests.
#pragma once

#include "kernels/ops.h"

namespace sluice::reference {

#define SLUICE_DECLARE(Op) void run(const Op& op);
SLUICE_PLAIN_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

}  // namespace sluice::reference
