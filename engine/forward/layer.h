// One layer of a pass: Engram where the layer has it, attention, experts, in this order, with the
// streams threaded between them.
#pragma once

#include <cstdint>

#include "engine/forward/pass.h"
#include "io/error.h"

namespace sluice {

// Requires layers 0 .. layer - 1 to be done. An error names the layer.
Result<void> run_layer(Pass& pass, int32_t layer);

}  // namespace sluice
