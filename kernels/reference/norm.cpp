// Source of reference.h: RmsNorm.
#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {

void run(const RmsNorm& op) {
    for (int32_t i = 0; i < op.n; ++i) {
        const bf16* x = op.x + size_t(i) * op.cols;
        bf16* y = op.y + size_t(i) * op.cols;
        double r = 1 / std::sqrt(dot(x, x, op.cols) / op.cols + op.eps);
        for (int32_t k = 0; k < op.cols; ++k)
            y[k] = to_bf16(float(to_float(op.w[k]) * (to_float(x[k]) * r)));
    }
}

}  // namespace sluice::reference
