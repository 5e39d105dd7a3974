// Kernels for many token rows: the launch functions of device.cuh hand over to these.
#pragma once

#include "kernels/cuda/device.cuh"

namespace sluice::cuda {

// False where the kernels do not take the shape, and then nothing was done.
bool launch_wide(const LinearFp8& op, Lane lane);
bool launch_wide(const LinearBf16& op, Lane lane);
bool launch_wide(const GroupedOutput& op, Lane lane);

bool launch_wide(const HyperMix& op, Lane lane);
bool launch_wide(const HyperStep& op, Lane lane);

// Takes the experts that have two rows or more; all have the shapes of one model.
void launch_wide(const RoutedExpert* ops, int count, Lane lane);
size_t expert_wide_scratch_bytes(int count, int dim, int inner);

}  // namespace sluice::cuda
