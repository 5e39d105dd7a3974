// Copies from global to shared memory that run beside compute: cp.async where it exists (sm_80 and
// later); on Turing a load and a store, finished when the call returns.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// Sixteen bytes; both addresses are multiples of 16.
__device__ inline void copy16(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     uint32_t(__cvta_generic_to_shared(shared))),
                 "l"(global)
                 : "memory");
#else
    *reinterpret_cast<uint4*>(shared) = __ldg(reinterpret_cast<const uint4*>(global));
#endif
}

// Closes a group of copies.
__device__ inline void copies_end() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `left` of this thread's groups are still on their way.
template <int left>
__device__ inline void copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}

}  // namespace sluice::cuda
