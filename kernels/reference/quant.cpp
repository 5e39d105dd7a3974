// Source of reference.h: ActQuant, RopeRequant, Hadamard and ScaleBf16.
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {
namespace {

float clamp(float x, float limit) {
    return std::fmin(std::fmax(x, -limit), limit);
}

// One group of an in-place quantiser; finite values only.
void requant_group(bf16* x, int32_t size, Requant kind) {
    float a = 0;
    for (int32_t i = 0; i < size; ++i) a = std::fmax(a, std::fabs(to_float(x[i])));
    float s = 0;
    bool fp8 = kind == Requant::fp8_32 || kind == Requant::fp8_64;
    if (fp8)
        s = e8m0_to_float(e8m0_ceil(std::fmax(a, 1e-4f) * (1.0f / 448.0f)));
    else if (kind == Requant::fp4_32)
        s = e8m0_to_float(e8m0_ceil(std::fmax(a, 6 * exp2i(-126)) * (1.0f / 6.0f)));
    else
        s = e4m3_to_float(float_to_e4m3(std::fmin(std::fmax(a, 6 * exp2i(-9)) / 6.0f, 448.0f)));
    for (int32_t i = 0; i < size; ++i) {
        float v = to_float(x[i]) / s;
        float q = fp8 ? e4m3_to_float(float_to_e4m3(clamp(v, 448))) : round_e2m1(clamp(v, 6));
        x[i] = to_bf16(q * s);
    }
}

void rotate(bf16* pair, float c, float s) {
    float even = to_float(pair[0]), odd = to_float(pair[1]);
    pair[0] = to_bf16(even * c - odd * s);
    pair[1] = to_bf16(even * s + odd * c);
}

}  // namespace

void run(const ActQuant& op) {
    for (size_t at = 0; at < size_t(op.n) * op.cols; at += size_t(op.group)) {
        std::vector<float> x(op.group);
        for (int32_t i = 0; i < op.group; ++i) x[i] = to_float(op.x[at + i]);
        act_quant_group(x.data(), op.group, op.out.codes + at, op.out.scales + at / 32);
    }
}

void run(const RopeRequant& op) {
    for (int32_t i = 0; i < op.n; ++i) {
        int32_t position = op.position + i * op.stride;
        for (int32_t h = 0; h < op.heads; ++h) {
            bf16* x = op.x + (size_t(i) * op.heads + h) * op.dim;
            for (int32_t j = 0; op.rope.cos && j < op.rope.half; ++j) {
                size_t at = size_t(position - op.rope.first) * op.rope.half + j;
                float s = op.inverse ? -op.rope.sin[at] : op.rope.sin[at];
                rotate(x + op.dim - 2 * op.rope.half + 2 * j, op.rope.cos[at], s);
            }
            if (op.requant == Requant::none) continue;
            int32_t size = op.requant == Requant::fp4_16   ? 16
                           : op.requant == Requant::fp8_64 ? 64
                                                           : 32;
            for (int32_t g = 0; g < op.dim - op.kept; g += size) {
                bool finite = true;
                for (int32_t j = g; j < g + size; ++j) finite = finite && is_finite(to_float(x[j]));
                if (finite)
                    requant_group(x + g, size, op.requant);
                else
                    for (int32_t j = g; j < g + size; ++j) x[j] = to_bf16(nan_f32);
            }
        }
    }
}

void run(const Hadamard& op) {
    std::vector<float> y(op.dim);
    float scale = float(1 / std::sqrt(double(op.dim)));
    for (int32_t row = 0; row < op.rows; ++row) {
        bf16* x = op.x + size_t(row) * op.dim;
        for (int32_t i = 0; i < op.dim; ++i) y[i] = to_float(x[i]);
        for (int32_t stride = 1; stride < op.dim; stride *= 2)
            for (int32_t i = 0; i < op.dim; ++i) {
                if (i & stride) continue;
                float a = y[i], b = y[i + stride];
                y[i] = a + b;
                y[i + stride] = a - b;
            }
        for (int32_t i = 0; i < op.dim; ++i) x[i] = to_bf16(y[i] * scale);
    }
}

void run(const ScaleBf16& op) {
    for (int32_t i = 0; i < op.count; ++i) op.x[i] = to_bf16(to_float(op.x[i]) * op.scale);
}

}  // namespace sluice::reference
