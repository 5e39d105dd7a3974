// All bodies and the table of them. Each isa_X.cpp defines SLUICE_ISA and includes this once.
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
#define SLUICE_ENTRY(Op) .run_##Op = run,
    SLUICE_CPU_OPS(SLUICE_ENTRY)
#undef SLUICE_ENTRY
};

}  // namespace sluice::cpu::SLUICE_ISA
