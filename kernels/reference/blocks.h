// What several reference operations share: one block of the quantisers, and plain dot products.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/ops.h"

namespace sluice::reference {

constexpr float nan_f32 = std::numeric_limits<float>::quiet_NaN();

// ActQuant of one group of `size` values: codes, and the scale byte for each 32 of them.
inline void act_quant_group(const float* x, int32_t size, uint8_t* codes, uint8_t* scales) {
    float a = 1e-4f;
    bool finite = true;
    for (int i = 0; i < size; ++i) {
        a = std::fmax(a, std::fabs(x[i]));
        finite = finite && is_finite(x[i]);
    }
    uint8_t scale = finite ? e8m0_ceil(a * (1.0f / 448.0f)) : 255;
    float s = e8m0_to_float(scale);
    for (int i = 0; i < size; ++i) {
        codes[i] = finite ? float_to_e4m3(std::fmin(std::fmax(x[i] / s, -448.0f), 448.0f)) : 0;
        scales[i / 32] = scale;
    }
}

inline double dot(const bf16* a, const bf16* b, int32_t count) {
    double sum = 0;
    for (int32_t i = 0; i < count; ++i) sum += double(to_float(a[i])) * to_float(b[i]);
    return sum;
}

inline double weight(const Fp8Matrix& w, int32_t row, int32_t col) {
    uint8_t scale = w.scales[size_t(row / 32) * (w.cols / 32) + col / 32];
    return double(e4m3_to_float(w.codes[size_t(row) * w.cols + col])) * e8m0_to_float(scale);
}

}  // namespace sluice::reference
