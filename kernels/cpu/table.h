// The operations of one instruction set, as pointers. Each isa_X.cpp fills one table from the same
// bodies (kernels/cpu/X.h), compiled for that instruction set.
//
// Rules for the bodies, because these files are compiled for different CPUs and linked together:
// everything is static and in namespace sluice::cpu::SLUICE_ISA, and nothing may be used that the
// linker could share between files (no <vector>, <algorithm>, std::min); numerics.h is always
// inlined. Each output is computed by one thread in the order of kernels/ops.h, whatever the number
// of threads. A body is `static void run(const Op& op, Team& team)`.
#pragma once

#include <stddef.h>

#include "kernels/ops.h"

namespace sluice::cpu {

// The threads that run an operation and the scratch memory they share: reserve() gives it, and
// `#pragma omp parallel num_threads(team.threads)` uses the number.
struct Team {
    int threads = 1;
};

// Up to this many values, a parallel region costs more than it saves.
constexpr int64_t small_work = 16384;
// The largest number of streams in hyper-connections.
constexpr int32_t max_hyper = 16;

// At least `bytes` of scratch, 64-byte aligned, contents undefined, valid until the body returns or
// reserves again. To be called outside parallel regions, for all threads at once. It keeps the
// largest size ever asked for. Null when the machine has no memory: then the body returns at once,
// and the backend reports the error at download() or synchronize().
void* reserve(Team& team, size_t bytes);

// How many queries share IndexTopk::scratch at a time, with one row of scores each.
int64_t index_queries(int32_t n, int32_t rows);

template <class Op>
using Run = void (*)(const Op& op, Team& team);

// What the CPU computes itself.
#define SLUICE_CPU_OPS(X) SLUICE_PLAIN_OPS(X) X(RoutedExpertBatch)

struct Table {
#define SLUICE_ENTRY(Op) Run<Op> run_##Op;
    SLUICE_CPU_OPS(SLUICE_ENTRY)
#undef SLUICE_ENTRY
};

const Table& table_scalar();
const Table& table_avx2();
const Table& table_avx512();
const Table& table_amx();

}  // namespace sluice::cpu
