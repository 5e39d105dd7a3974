// Source of reference.h: HyperMix, HyperCollapse and HyperExpand.
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {
namespace {

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

void divide_rows(std::vector<double>& c, int32_t hc, double eps) {
    for (int32_t j = 0; j < hc; ++j) {
        double sum = eps;
        for (int32_t k = 0; k < hc; ++k) sum += c[j * hc + k];
        for (int32_t k = 0; k < hc; ++k) c[j * hc + k] /= sum;
    }
}

void divide_columns(std::vector<double>& c, int32_t hc, double eps) {
    for (int32_t k = 0; k < hc; ++k) {
        double sum = eps;
        for (int32_t j = 0; j < hc; ++j) sum += c[j * hc + k];
        for (int32_t j = 0; j < hc; ++j) c[j * hc + k] /= sum;
    }
}

void sinkhorn(std::vector<double>& c, const HyperMix& op) {
    for (int32_t j = 0; j < op.hc; ++j) {
        double* row = c.data() + j * op.hc;
        double max = row[0], sum = 0;
        for (int32_t k = 1; k < op.hc; ++k) max = std::fmax(max, row[k]);
        for (int32_t k = 0; k < op.hc; ++k) sum += row[k] = std::exp(row[k] - max);
        for (int32_t k = 0; k < op.hc; ++k) row[k] = row[k] / sum + op.hc_eps;
    }
    divide_columns(c, op.hc, op.hc_eps);
    for (int32_t step = 1; step < op.iterations; ++step) {
        divide_rows(c, op.hc, op.hc_eps);
        divide_columns(c, op.hc, op.hc_eps);
    }
}

}  // namespace

void run(const HyperMix& op) {
    int32_t hc = op.hc, width = hc * op.dim;
    std::vector<double> m(op.post ? (2 + hc) * hc : hc), c(hc * hc);
    for (int32_t i = 0; i < op.n; ++i) {
        const bf16* u = op.h + size_t(i) * width;
        double r = 1 / std::sqrt(dot(u, u, width) / width + op.eps);
        for (size_t row = 0; row < m.size(); ++row) {
            m[row] = 0;
            for (int32_t k = 0; k < width; ++k)
                m[row] += double(op.fn.data[row * width + k]) * to_float(u[k]);
            int32_t part = row < size_t(hc) ? 0 : row < size_t(2 * hc) ? 1 : 2;
            m[row] = m[row] * r * op.scale[part] + op.base[row];
        }
        for (int32_t j = 0; j < hc; ++j)
            op.pre[size_t(i) * hc + j] = float(sigmoid(m[j]) + op.hc_eps);
        if (!op.post) continue;
        for (int32_t j = 0; j < hc; ++j)
            op.post[size_t(i) * hc + j] = float(2 * sigmoid(m[hc + j]));
        for (int32_t j = 0; j < hc * hc; ++j) c[j] = m[2 * hc + j];
        sinkhorn(c, op);
        for (int32_t j = 0; j < hc * hc; ++j) op.comb[size_t(i) * hc * hc + j] = float(c[j]);
    }
}

void run(const HyperCollapse& op) {
    for (int32_t i = 0; i < op.n; ++i)
        for (int32_t d = 0; d < op.dim; ++d) {
            double sum = 0;
            for (int32_t j = 0; j < op.hc; ++j)
                sum += double(op.pre[size_t(i) * op.hc + j]) *
                       to_float(op.h[(size_t(i) * op.hc + j) * op.dim + d]);
            op.x[size_t(i) * op.dim + d] = to_bf16(float(sum));
        }
}

void run(const HyperExpand& op) {
    std::vector<double> old(op.hc);
    for (int32_t i = 0; i < op.n; ++i)
        for (int32_t d = 0; d < op.dim; ++d) {
            bf16* h = op.h + size_t(i) * op.hc * op.dim + d;
            const float* comb = op.comb + size_t(i) * op.hc * op.hc;
            double x = to_float(op.x[size_t(i) * op.dim + d]);
            for (int32_t j = 0; j < op.hc; ++j) old[j] = to_float(h[size_t(j) * op.dim]);
            for (int32_t k = 0; k < op.hc; ++k) {
                double sum = op.post[size_t(i) * op.hc + k] * x;
                for (int32_t j = 0; j < op.hc; ++j) sum += comb[j * op.hc + k] * old[j];
                h[size_t(k) * op.dim] = to_bf16(float(sum));
            }
        }
}

}  // namespace sluice::reference
