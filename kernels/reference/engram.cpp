// Source of reference.h: EngramGather and EngramGate.
#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {

void run(const EngramGather& op) {
    int32_t blocks = op.dim / 32;
    for (size_t i = 0; i < size_t(op.n) * op.columns; ++i)
        for (int32_t b = 0; b < blocks; ++b) {
            size_t from = size_t(op.index[i]) * blocks + b;
            size_t to = i * blocks + b;
            float e[32];
            for (int k = 0; k < 32; ++k)
                e[k] = round_bf16(e4m3_to_float(op.codes[from * 32 + k]) *
                                  e8m0_to_float(op.scales[from]));
            act_quant_group(e, 32, op.out.codes + to * 32, op.out.scales + to);
        }
}

void run(const EngramGate& op) {
    size_t dim = op.dim;
    for (int32_t i = 0; i < op.n; ++i) {
        const bf16* keys = op.kv + size_t(i) * (op.hc + 1) * dim;
        const bf16* value = keys + op.hc * dim;
        for (int32_t j = 0; j < op.hc; ++j) {
            bf16* h = op.h + (size_t(i) * op.hc + j) * dim;
            const bf16* key = keys + j * dim;
            double sum = 0;
            for (size_t d = 0; d < dim; ++d)
                sum += double(to_float(h[d])) * to_float(op.q_weight[j * dim + d]) *
                       to_float(op.k_weight[j * dim + d]) * to_float(key[d]);
            double rho = 1 / std::sqrt(dot(h, h, op.dim) / op.dim + op.eps) /
                         std::sqrt(dot(key, key, op.dim) / op.dim + op.eps);
            double d = sum * rho / std::sqrt(double(op.dim));
            double root = std::copysign(std::sqrt(std::fabs(d) < 1e-6 ? 1e-6 : std::fabs(d)), d);
            double g = 1 / (1 + std::exp(-root));
            for (size_t k = 0; k < dim; ++k)
                h[k] = to_bf16(float(to_float(h[k]) + g * to_float(value[k])));
        }
    }
}

}  // namespace sluice::reference
