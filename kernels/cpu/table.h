// One instruction set's operations, as pointers. isa_X.cpp fills one table from the same bodies
// (kernels/cpu/<op>.h), compiled with that instruction set.
//
// Rules for the bodies, because the files are compiled for different CPUs and linked together:
// everything lives in namespace sluice::cpu::SLUICE_ISA and is static; no function or template that
// the linker could share between files (no <vector>, <algorithm>, std::min); numerics.h is always
// inlined. An output is computed by one thread in the order of kernels/ops.h, whatever the number
// of threads. A body is `static void run(const Op& op, Workspace& workspace)`.
#pragma once

#include <stddef.h>

#include "kernels/ops.h"

namespace sluice::cpu {

// What a body gets from its backend: the number of threads for `#pragma omp parallel ...
// num_threads(workspace.threads)`, and scratch memory.
struct Workspace {
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
void* reserve(Workspace& workspace, size_t bytes);

// Queries that share IndexTopk::scratch at a time: one row of scores each.
int64_t index_queries(int32_t n, int32_t rows);

template <class Op>
using Run = void (*)(const Op& op, Workspace& workspace);

struct Table {
    Run<ActQuant> act_quant;
    Run<RopeRequant> rope_requant;
    Run<RmsNorm> rms_norm;
    Run<LinearFp8> linear_fp8;
    Run<LinearBf16> linear_bf16;
    Run<GroupedOutput> grouped_output;
    Run<HyperMix> hyper_mix;
    Run<HyperCollapse> hyper_collapse;
    Run<HyperExpand> hyper_expand;
    Run<SparseAttention> sparse_attention;
    Run<WindowStore> window_store;
    Run<CompressPool> compress_pool;
    Run<IndexTopk> index_topk;
    Run<ScaleBf16> scale_bf16;
    Run<EngramGather> engram_gather;
    Run<EngramGate> engram_gate;
    Run<Route> route;
    Run<Swiglu> swiglu;
    Run<RoutedExpertBatch> routed_experts;
    Run<Combine> combine;
};

const Table& table_scalar();
const Table& table_avx2();
const Table& table_avx512();
const Table& table_amx();

}  // namespace sluice::cpu
