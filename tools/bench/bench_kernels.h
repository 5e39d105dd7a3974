// How fast routed experts run from memory, beside what a plain memory copy does in the same run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

// One instruction set with one number of threads. Rates are medians of turns in which the copy and
// every instruction set come up in order, so that all see the same machine.
struct KernelRate {
    CpuIsa isa = CpuIsa::scalar;
    int threads = 1;
    double fp4_bytes_s = 0;    // one row an expert: bytes of FP4 codes, without scales
    double token_bytes_s = 0;  // likewise, token_experts at once
    double copy_bytes_s = 0;   // memcpy by as many threads: bytes copied, so twice that is moved
    double batch_macs_s = 0;   // batch_rows rows an expert: multiply-adds

    double share() const { return copy_bytes_s > 0 ? token_bytes_s / copy_bytes_s : 0; }
};

struct KernelBench {
    int32_t dim = 5120, inner = 2304;
    int32_t token_experts = 6;
    int32_t batch_rows = 16;
    uint64_t memory = 384u << 20;  // experts to go round in: several times the largest cache
    double seconds = 0.2;          // a measurement
    int turns = 5;
    std::vector<CpuIsa> isas;  // empty: all that this CPU has
    std::vector<int> threads;  // empty: 1 and all usable CPUs
};

// Bytes a second that `threads` copy from one half of `memory` (written before) to the other.
double copy_rate(std::byte* memory, size_t bytes, int threads, double seconds);

// With no more than `room` bytes of memory; no_memory where that does not hold two experts and as
// much to copy.
Result<KernelBench> fit(KernelBench bench, uint64_t room);

// no_memory when the experts do not fit.
Result<std::vector<KernelRate>> bench_kernels(const KernelBench& bench);

std::string kernels_text(const std::vector<KernelRate>& rates);

}  // namespace sluice
