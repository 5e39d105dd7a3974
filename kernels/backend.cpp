// Composed operations as the sum of their parts: what a backend does that has nothing better.
#include "kernels/backend.h"

namespace sluice {

void Backend::copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                        size_t bytes, size_t rows) {
    for (size_t i = 0; i < rows; ++i) {
        copy(static_cast<std::byte*>(to) + i * to_pitch,
             static_cast<const std::byte*>(from) + i * from_pitch, bytes);
    }
}

void Backend::run(const RoutedExpertBatch& op) {
    for (int32_t i = 0; i < op.count; ++i) run(op.items[i]);
}

void Backend::run(const Best& op) {
    for (int32_t i = 0; i < op.n; ++i) {
        const float* x = op.x + size_t(i) * op.count;
        int32_t best = 0, odd = -1;
        for (int32_t k = 0; k < op.count; ++k) {
            if (x[k] > x[best]) best = k;
            if (odd < 0 && !is_finite(x[k])) odd = k;
        }
        op.place[2 * i] = best;
        op.place[2 * i + 1] = odd;
    }
}

void Backend::run(const HyperStep& op) {
    if (op.combine.y) run(op.combine);
    if (op.expand.h) {
        HyperExpand expand = op.expand;
        if (op.mix.h != expand.h) {
            size_t bytes = size_t(expand.n) * expand.hc * expand.dim * sizeof(bf16);
            copy(const_cast<bf16*>(op.mix.h), expand.h, bytes);
            expand.h = const_cast<bf16*>(op.mix.h);
        }
        run(expand);
    }
    run(op.mix);
    run(op.collapse);
    run(op.norm);
    run(op.quant);
}

void Backend::run(const LinearFp8Pair& op) {
    run(op.a);
    run(op.b);
}

void Backend::run(const LatentFinish& op) {
    run(op.query);
    run(op.query_quant);
    run(op.key);
    run(op.key_place);
    if (op.store.buffer) run(op.store);
}

void Backend::run(const RotatedAttention& op) {
    if (op.norm.x) run(op.norm);
    run(op.query);
    run(op.attention);
    run(op.back);
}

void Backend::run(const GroupedOutputQuant& op) {
    run(op.output);
    run(op.quant);
}

void Backend::run(const GateUp& op) {
    run(op.gate);
    run(op.up);
    run(op.swiglu);
}

}  // namespace sluice
