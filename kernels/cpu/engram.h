// EngramGather and EngramGate. Both pass over their bytes once or twice.
#pragma once

#include "kernels/cpu/norm.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace sluice::cpu::SLUICE_ISA {

// e4m3_to_float() of numerics.h.
SLUICE_LANE f32x16 from_e4m3(i32x16 code) {
    i32x16 magnitude = code & splat_int(0x7f);
    i32x16 normal = (magnitude << 20) + splat_int(120 << 23);
    i32x16 tiny = bits(convert(magnitude) * splat(0.001953125f));  // 2^-9
    i32x16 value = select(splat_int(8) > magnitude, tiny, normal);
    value = select(magnitude > splat_int(0x7e), splat_int(0x7fc00000), value);
    return from_bits(value | ((code & splat_int(0x80)) << 24));
}

static void run(const EngramGather& op, Team& team) {
    int64_t row_blocks = op.dim / 32, blocks = int64_t(op.n) * op.columns * row_blocks;
#pragma omp parallel for num_threads(team.threads) if (blocks * 32 > small_work)
    for (int64_t b = 0; b < blocks; ++b) {
        int64_t from = op.index[b / row_blocks] * row_blocks + b % row_blocks;
        const uint8_t* codes = op.codes + from * 32;
        f32x16 scale = splat(e8m0_to_float(op.scales[from]));
        Block e{round_bf16(from_e4m3(load_bytes(codes)) * scale),
                round_bf16(from_e4m3(load_bytes(codes + 16)) * scale)};
        act_quant_group({e}, op.out.codes + b * 32, op.out.scales + b);
    }
}

// Sum of (h * w) * key, dot of 16. The products are not exact, so nothing is fused.
static float gate_dot(const bf16* h, const bf16* q, const bf16* k, const bf16* key, int64_t dim) {
    f32x16 sum = zero();
    int64_t d = 0;
    for (; d + 16 <= dim; d += 16)
        sum = sum + load(h + d) * (load(q + d) * load(k + d)) * load(key + d);
    int left = int(dim - d);
    if (left > 0)
        sum = sum + load_tail(h + d, left) * (load_tail(q + d, left) * load_tail(k + d, left)) *
                        load_tail(key + d, left);
    return tree_sum(sum);
}

static void run(const EngramGate& op, Team& team) {
    int64_t dim = op.dim, items = int64_t(op.n) * op.hc;
    float inverse_root = float(1.0 / __builtin_sqrt(double(dim)));
#pragma omp parallel for num_threads(team.threads) if (items * dim > small_work)
    for (int64_t item = 0; item < items; ++item) {
        int64_t i = item / op.hc, j = item % op.hc;
        bf16* h = op.h + item * dim;
        const bf16* key = op.kv + (i * (op.hc + 1) + j) * dim;
        const bf16* value = op.kv + (i * (op.hc + 1) + op.hc) * dim;
        float rho = inverse_rms(h, op.dim, op.eps) * inverse_rms(key, op.dim, op.eps);
        float sum = gate_dot(h, op.q_weight + j * dim, op.k_weight + j * dim, key, dim);
        float d = sum * rho * inverse_root;
        float magnitude = float_of(bits_of(d) & 0x7fffffffu);
        float root = __builtin_sqrtf(magnitude < 1e-6f ? 1e-6f : magnitude);
        f32x16 g = splat(sigmoid_f32(float_of(bits_of(root) | (bits_of(d) & 0x80000000u))));
        int64_t k = 0;
        for (; k + 16 <= dim; k += 16) store(h + k, load(h + k) + g * load(value + k));
        int left = int(dim - k);
        if (left > 0)
            store_tail(h + k, load_tail(h + k, left) + g * load_tail(value + k, left), left);
    }
}

}  // namespace sluice::cpu::SLUICE_ISA
