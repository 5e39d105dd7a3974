// All bodies and the table over them. Included once by each isa_X.cpp, which defines SLUICE_ISA.
#include "kernels/cpu/hyper.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"
#if __has_include("kernels/cpu/attention.h")
#include "kernels/cpu/attention.h"
#define SLUICE_ATTENTION run
#else
#define SLUICE_ATTENTION nullptr
#endif
#if __has_include("kernels/cpu/compressor.h")
#include "kernels/cpu/compressor.h"
#define SLUICE_COMPRESSOR run
#else
#define SLUICE_COMPRESSOR nullptr
#endif
#if __has_include("kernels/cpu/indexer.h")
#include "kernels/cpu/indexer.h"
#define SLUICE_INDEXER run
#else
#define SLUICE_INDEXER nullptr
#endif
#if __has_include("kernels/cpu/engram.h")
#include "kernels/cpu/engram.h"
#define SLUICE_ENGRAM run
#else
#define SLUICE_ENGRAM nullptr
#endif
#if __has_include("kernels/cpu/route.h")
#include "kernels/cpu/route.h"
#define SLUICE_ROUTE run
#else
#define SLUICE_ROUTE nullptr
#endif
#if __has_include("kernels/cpu/moe.h")
#include "kernels/cpu/moe.h"
#define SLUICE_MOE run
#else
#define SLUICE_MOE nullptr
#endif

namespace sluice::cpu::SLUICE_ISA {

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
    .sparse_attention = SLUICE_ATTENTION,
    .window_store = SLUICE_ATTENTION,
    .compress_pool = SLUICE_COMPRESSOR,
    .index_topk = SLUICE_INDEXER,
    .scale_bf16 = run,
    .engram_gather = SLUICE_ENGRAM,
    .engram_gate = SLUICE_ENGRAM,
    .route = SLUICE_ROUTE,
    .swiglu = SLUICE_MOE,
    .routed_expert = SLUICE_MOE,
    .combine = SLUICE_MOE,
};

}  // namespace sluice::cpu::SLUICE_ISA
