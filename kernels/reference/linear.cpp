// Source of reference.h: LinearFp8, LinearBf16 and GroupedOutput.
#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {

void run(const LinearFp8& op) {
    int32_t cols = op.w.cols;
    for (int32_t i = 0; i < op.n; ++i) {
        const uint8_t* codes = op.x.codes + size_t(i) * cols;
        const uint8_t* scales = op.x.scales + size_t(i) * (cols / 32);
        for (int32_t r = 0; r < op.w.rows; ++r) {
            double sum = 0;
            for (int32_t k = 0; k < cols; ++k)
                sum += weight(op.w, r, k) * e4m3_to_float(codes[k]) * e8m0_to_float(scales[k / 32]);
            op.y[size_t(i) * op.w.rows + r] = to_bf16(float(sum));
        }
    }
}

void run(const LinearBf16& op) {
    for (int32_t i = 0; i < op.n; ++i)
        for (int32_t r = 0; r < op.w.rows; ++r) {
            float y = float(
                dot(op.w.data + size_t(r) * op.w.cols, op.x + size_t(i) * op.w.cols, op.w.cols));
            size_t at = size_t(i) * op.w.rows + r;
            if (op.y_bf16) op.y_bf16[at] = to_bf16(y);
            if (op.y_f32) op.y_f32[at] = y;
        }
}

void run(const GroupedOutput& op) {
    int32_t rank = op.w.rows / op.groups;
    for (int32_t i = 0; i < op.n; ++i)
        for (int32_t r = 0; r < op.w.rows; ++r) {
            const bf16* o = op.o + (size_t(i) * op.groups + r / rank) * op.w.cols;
            double sum = 0;
            for (int32_t k = 0; k < op.w.cols; ++k) sum += weight(op.w, r, k) * to_float(o[k]);
            op.t[size_t(i) * op.w.rows + r] = to_bf16(float(sum));
        }
}

}  // namespace sluice::reference
