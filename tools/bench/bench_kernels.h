// Measures how fast routed experts are computed from memory, beside a plain memory copy in the same
// run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

// One instruction set with one number of threads. Rates are medians over turns; in each turn the
// copy and every instruction set are measured one after the other, so that all meet the same
// machine.
struct KernelRate {
    CpuIsa isa = CpuIsa::scalar;
    int threads = 1;
    double fp4_bytes_s = 0;    // one row per expert: bytes of FP4 codes, without scales
    double token_bytes_s = 0;  // the same with token_experts experts at once
    double copy_bytes_s = 0;   // memcpy by as many threads: bytes copied (twice as many are moved)
    double batch_macs_s = 0;   // batch_rows rows per expert: multiply-adds

    double share() const { return copy_bytes_s > 0 ? token_bytes_s / copy_bytes_s : 0; }
};

struct KernelBench {
    int32_t dim = 5120, inner = 2304;
    int32_t token_experts = 6;
    int32_t batch_rows = 16;
    uint64_t memory = 384u << 20;  // experts to rotate through: several times the largest cache
    double seconds = 0.2;          // per measurement
    int turns = 5;
    std::vector<CpuIsa> isas;  // empty: all that this CPU supports
    std::vector<int> threads;  // empty: 1 and all usable CPUs
};

// Bytes per second that `threads` copy from one half of `memory` to the other. The caller has
// written `memory` before.
double copy_rate(std::byte* memory, size_t bytes, int threads, double seconds);

// Reduces bench.memory so that the benchmark fits into `room` bytes; no_memory when they do not
// hold two experts and as much again to copy.
Result<KernelBench> fit(KernelBench bench, uint64_t room);

// no_memory when the experts do not fit.
Result<std::vector<KernelRate>> bench_kernels(const KernelBench& bench);

std::string kernels_text(const std::vector<KernelRate>& rates);

}  // namespace sluice
