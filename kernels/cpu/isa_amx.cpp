// Source of table.h: the table for AVX-512 with AMX tiles.
#define SLUICE_ISA amx
#define SLUICE_AMX
// GCC 12 mistakes the operands that its own AVX-512 functions leave undefined for ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "kernels/cpu/bodies.h"

namespace sluice::cpu {

const Table& table_amx() {
    return amx::table;
}

}  // namespace sluice::cpu
