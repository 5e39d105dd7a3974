// Source of table.h: the table for without vector instructions.
#define SLUICE_ISA scalar
#include "kernels/cpu/bodies.h"

namespace sluice::cpu {

const Table& table_scalar() {
    return scalar::table;
}

}  // namespace sluice::cpu
