// Source of table.h: the table for AVX2.
#define SLUICE_ISA avx2
#include "kernels/cpu/bodies.h"

namespace sluice::cpu {

const Table& table_avx2() {
    return avx2::table;
}

}  // namespace sluice::cpu
