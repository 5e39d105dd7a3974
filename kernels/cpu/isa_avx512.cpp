#define SLUICE_ISA avx512
#include "kernels/cpu/bodies.h"

namespace sluice::cpu {

const Table& table_avx512() {
    return avx512::table;
}

}  // namespace sluice::cpu
