// The steps of a layer, on a Pass. A model's layer.cpp composes its layers of them, in its order;
// each step gives a part (layer_attention.h, layer_compress.h, ...) what it needs of the pass.
//
//   begin_layer()  ->  enter_attention()  ->  project_keys()  ->  [compress_*(), choose_rows()]  ->
//   attend_keys()  ->  leave_attention()  ->  run_experts()
//
// Errors: io, device, numerical, interrupted. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/forward/pass.h"
#include "io/error.h"

namespace sluice {

const LayerWeights& weights_of(const Pass& pass, int32_t layer);

// Engram, in a layer that has it; the streams are settled afterwards.
Result<void> run_engram(Pass& pass, int32_t layer);
// Lets a probe see and replace the streams; brings known routes to the device. From here to the
// router the launches of one token may be recorded and repeated.
Result<void> begin_layer(Pass& pass, int32_t layer);

Result<void> enter_attention(Pass& pass, int32_t layer);
// Query latents, and the chunk's keys for the window.
Result<void> project_keys(Pass& pass, int32_t layer);
// Compressed rows of a layer that owns some. With `latent_keys` index keys are made of the same
// latents.
Result<void> compress_rows(Pass& pass, int32_t layer, bool latent_keys);
// Index keys with a compressor of their own.
Result<void> compress_keys(Pass& pass, int32_t layer);
// The indexer: publishes the list of rows that the layers up to the next indexer attend to.
Result<void> choose_rows(Pass& pass, int32_t layer);
Result<void> attend_keys(Pass& pass, int32_t layer);
Result<void> leave_attention(Pass& pass, int32_t layer);

// The other half of a layer: its mix, its experts, and the streams behind it.
Result<void> run_experts(Pass& pass, int32_t layer);

// The model's run_layer(), under cancellation, progress and errors that name the layer.
Result<void> run_layer(Pass& pass, int32_t layer);

}  // namespace sluice
