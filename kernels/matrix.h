// Views of weights as the checkpoint stores them, and of quantised activations. They own nothing
// and are row-major; the memory is the backend's (host for the CPU, device for CUDA).
#pragma once

#include "kernels/numerics.h"

namespace sluice {

// W [rows, cols] E4M3 with one E8M0 scale per tile of 32 x 32. cols % 32 == 0; rows may be any
// number.
struct Fp8Matrix {
    const uint8_t* codes = nullptr;   // [rows][cols]
    const uint8_t* scales = nullptr;  // [ceil(rows / 32)][cols / 32]
    int32_t rows = 0;
    int32_t cols = 0;
};

// W [rows, cols] E2M1 with one E8M0 scale per row and 32 columns. cols % 32 == 0. Any address is
// allowed: shards align tensors to nothing.
struct Fp4Matrix {
    const uint8_t* codes = nullptr;   // [rows][cols / 2], even column in the low nibble
    const uint8_t* scales = nullptr;  // [rows][cols / 32]
    int32_t rows = 0;
    int32_t cols = 0;
};

// W [rows, cols] BF16 or FP32. cols may be any number.
struct Bf16Matrix {
    const bf16* data = nullptr;
    int32_t rows = 0;
    int32_t cols = 0;
};
struct F32Matrix {
    const float* data = nullptr;
    int32_t rows = 0;
    int32_t cols = 0;
};

// Activations quantised by ActQuant: n rows of `cols` E4M3 codes with one E8M0 scale per 32. A
// block with a non-finite value has scale byte 255 (NaN) and codes 0, so that NaN reaches the
// logits.
struct QuantRows {
    uint8_t* codes = nullptr;   // [n][cols]
    uint8_t* scales = nullptr;  // [n][cols / 32]
};

// cos and sin of position x frequency, computed on the host in fp32 from the fp32 angle. Rows are
// positions first .. first + count - 1, with `half` frequencies each.
struct RopeTable {
    const float* cos = nullptr;  // [count][half]
    const float* sin = nullptr;
    int32_t first = 0;
    int32_t count = 0;
    int32_t half = 0;
};

// One routed expert.
struct ExpertWeights {
    Fp4Matrix w1;  // gate [F, D]
    Fp4Matrix w2;  // down [D, F]
    Fp4Matrix w3;  // up   [F, D]
};

}  // namespace sluice
