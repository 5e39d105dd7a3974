// Source of reference.h: RmsNorm and HeadNorm.
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

void run(const HeadNorm& op) {
    for (size_t head = 0; head < size_t(op.n) * op.heads; ++head) {
        bf16* x = op.x + head * op.dim;
        double sum = 0;
        for (int32_t k = 0; k < op.dim; ++k) sum += round_bf16(to_float(x[k]) * to_float(x[k]));
        float m = round_bf16(float(sum / op.dim));
        float rho = round_bf16(1 / std::sqrt(round_bf16(m + op.eps)));
        for (int32_t k = 0; k < op.dim; ++k) x[k] = to_bf16(to_float(x[k]) * rho);
    }
}

}  // namespace sluice::reference
