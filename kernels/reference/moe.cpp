// Source of reference.h: Swiglu, RoutedExpert and Combine.
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {
namespace {

// One output of a linear with an FP4 weight, in the order of additions of RoutedExpert.
bf16 fp4_output(const Fp4Matrix& w, int32_t row, const uint8_t* codes, const uint8_t* scales) {
    int32_t blocks = w.cols / 32;
    float lane[8] = {};
    for (int32_t b = 0; b < blocks; ++b) {
        int32_t sum = 0;
        for (int32_t k = 32 * b; k < 32 * b + 32; ++k) {
            uint8_t pair = w.codes[size_t(row) * (w.cols / 2) + k / 2];
            sum += e4m3_to_int(codes[k]) * e2m1_to_twice(k % 2 ? pair >> 4 : pair & 15);
        }
        float s_x = e8m0_to_float(scales[b]) * exp2i(-10);
        float s_w = e8m0_to_float(w.scales[size_t(row) * blocks + b]);
        lane[b % 8] = lane[b % 8] + (float(sum) * s_x) * s_w;
    }
    for (int step = 4; step > 0; step /= 2)
        for (int l = 0; l < step; ++l) lane[l] = lane[l] + lane[l + step];
    return to_bf16(lane[0]);
}

std::vector<bf16> fp4_linear(const Fp4Matrix& w, const uint8_t* codes, const uint8_t* scales) {
    std::vector<bf16> y(w.rows);
    for (int32_t r = 0; r < w.rows; ++r) y[r] = fp4_output(w, r, codes, scales);
    return y;
}

}  // namespace

void run(const Swiglu& op) {
    for (int32_t i = 0; i < op.n; ++i)
        for (int32_t first = 0; first < op.cols; first += op.group) {
            size_t at = size_t(i) * op.cols + first;
            std::vector<float> a(op.group);
            for (int32_t k = 0; k < op.group; ++k) {
                float g = to_float(op.gate[at + k]), u = to_float(op.up[at + k]);
                g = g > op.limit ? op.limit : g;
                u = u > op.limit ? op.limit : u < -op.limit ? -op.limit : u;
                float product = silu_f32(g) * u;
                a[k] = round_bf16(op.weights ? op.weights[i] * product : product);
            }
            act_quant_group(a.data(), op.group, op.out.codes + at, op.out.scales + at / 32);
        }
}

void run(const RoutedExpert& op) {
    int32_t dim = op.expert.w1.cols, inner = op.expert.w1.rows;
    std::vector<uint8_t> codes(inner), scales(inner / 32);
    for (int32_t r = 0; r < op.count; ++r) {
        const uint8_t* x = op.x.codes + size_t(op.rows[r]) * dim;
        const uint8_t* s = op.x.scales + size_t(op.rows[r]) * (dim / 32);
        auto gate = fp4_linear(op.expert.w1, x, s);
        auto up = fp4_linear(op.expert.w3, x, s);
        QuantRows a{codes.data(), scales.data()};
        run(Swiglu{a, gate.data(), up.data(), op.weights + r, 1, inner, op.limit, op.group});
        auto y = fp4_linear(op.expert.w2, codes.data(), scales.data());
        for (int32_t k = 0; k < dim; ++k) op.out[size_t(op.slots[r]) * dim + k] = y[k];
    }
}

void run(const Combine& op) {
    for (int32_t i = 0; i < op.n; ++i)
        for (int32_t d = 0; d < op.dim; ++d) {
            float sum = 0;
            for (int32_t j = 0; j < op.k; ++j)
                sum = sum + to_float(op.partial[(size_t(i) * op.k + j) * op.dim + d]);
            size_t at = size_t(i) * op.dim + d;
            op.y[at] = to_bf16(sum + to_float(op.shared[at]));
        }
}

}  // namespace sluice::reference
