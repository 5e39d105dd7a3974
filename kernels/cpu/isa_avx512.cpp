// Source of table.h: the table for AVX-512 with VNNI.
#define SLUICE_ISA avx512
// GCC 12 mistakes the operands that its own AVX-512 functions leave undefined for ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "kernels/cpu/bodies.h"

namespace sluice::cpu {

const Table& table_avx512() {
    return avx512::table;
}

}  // namespace sluice::cpu
