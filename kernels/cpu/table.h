// One instruction set's operations, as pointers. isa_X.cpp fills one table from the same bodies
// (kernels/cpu/<op>.h), compiled with that instruction set.
//
// Rules for the bodies, because the files are compiled for different CPUs and linked together:
// everything lives in namespace sluice::cpu::SLUICE_ISA and is static; no function or template that
// the linker could share between files (no <vector>, <algorithm>, std::min); numerics.h is always
// inlined. An output is computed by one thread in the order of kernels/ops.h, whatever the number
// of threads. A body is `static void run(const Op& op, Team& team)`.
#pragma once

#include <stddef.h>

#include "kernels/ops.h"

namespace sluice::cpu {

// What a body gets from its backend: the number of threads for `#pragma omp parallel ...
// num_threads(team.threads)`, and scratch memory.
struct Team {
    int threads = 1;
};

// Below so many values a parallel region costs more than it saves.
constexpr int64_t small_work = 16384;
// HyperMix and its kin take at most so many streams.
constexpr int32_t max_hyper = 16;

// At least `bytes` of scratch, 64-byte aligned, contents undefined, valid until the body returns or
// reserves again. Call it outside parallel regions, with all threads' needs. It
// keeps the largest size asked for. Null when the machine has no memory: the body returns at once,
// and the backend reports the error at download() or synchronize().
void* reserve(Team& team, size_t bytes);

// Queries that share IndexTopk::scratch at a time: one row of scores each.
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
