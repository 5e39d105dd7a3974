// All bodies and the table over them. Included once by each isa_X.cpp, which defines SLUICE_ISA.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/compressor.h"
#include "kernels/cpu/engram.h"
#include "kernels/cpu/hyper.h"
#include "kernels/cpu/indexer.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/moe.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/route.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// Each `run` is the overload for its operation.
static const Table table = {
    .act_quant = run,
    .rope_requant = run,
    .rms_norm = run,
    .linear_fp8 = run,
    .linear_bf16 = run,
    .grouped_output = run,
    .hyper_mix = run,
    .hyper_collapse = run,
    .hyper_expand = run,
    .sparse_attention = run,
    .window_store = run,
    .compress_pool = run,
    .index_topk = run,
    .scale_bf16 = run,
    .engram_gather = run,
    .engram_gate = run,
    .route = run,
    .swiglu = run,
    .routed_experts = run,
    .combine = run,
};

}  // namespace sluice::cpu::SLUICE_ISA
