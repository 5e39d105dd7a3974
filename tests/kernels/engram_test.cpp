#include <doctest/doctest.h>

#include <array>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct GateCase {
    int32_t n, hc, dim;
    std::vector<bf16> h, kv, q_weight, k_weight;

    GateCase(int32_t n, int32_t hc, int32_t dim, uint64_t seed) : n(n), hc(hc), dim(dim) {
        Random random(seed);
        h = random.activations(size_t(n) * hc * dim);
        kv = random.activations(size_t(n) * (hc + 1) * dim);
        q_weight = random.weights(size_t(hc) * dim);
        k_weight = random.weights(size_t(hc) * dim);
    }
};

std::vector<bf16> run_on(const TestBackend& on, const GateCase& c) {
    Operands operands(on);
    bf16* h = operands.in(c.h);
    on->run(EngramGate{h, operands.in(c.kv), operands.in(c.q_weight), operands.in(c.k_weight), c.n,
                       c.hc, c.dim, 1e-20f});
    return operands.fetch(h, c.h.size());
}

std::vector<bf16> run_reference(const GateCase& c) {
    std::vector<bf16> h = c.h;
    reference::run(EngramGate{h.data(), c.kv.data(), c.q_weight.data(), c.k_weight.data(), c.n,
                              c.hc, c.dim, 1e-20f});
    return h;
}

}  // namespace

TEST_CASE("EngramGather: the bits of the reference, every scale byte and NaN codes included") {
    Random random(1);
    for (int32_t dim : {32, 96, 256})
        for (int32_t n : {1, 7}) {
            CAPTURE(dim);
            const int32_t columns = 24, distinct = 50;
            std::vector<uint8_t> codes = random.e4m3(size_t(distinct) * dim);
            std::vector<uint8_t> scales = random.bytes(size_t(distinct) * dim / 32);
            const uint8_t edges[] = {0, 1, 127, 254, 255};
            for (size_t i = 0; i < sizeof edges; ++i) scales[i] = edges[i];
            codes[33] = 0x7f;
            codes[dim * 2 + 3] = 0xff;
            std::vector<int32_t> index;
            for (int32_t i = 0; i < n * columns; ++i)
                index.push_back(i < 5 ? i : random.below(distinct));
            size_t count = size_t(n) * columns * dim;
            std::vector<uint8_t> want(count), want_scales(count / 32);
            reference::run(EngramGather{{want.data(), want_scales.data()},
                                        codes.data(),
                                        scales.data(),
                                        index.data(),
                                        n,
                                        columns,
                                        dim});
            for (auto& on : backends_present()) {
                CAPTURE(on.name());
                Operands operands(on);
                EngramGather op{{operands.out<uint8_t>(count), operands.out<uint8_t>(count / 32)},
                                operands.in(codes),
                                operands.in(scales),
                                operands.in(index),
                                n,
                                columns,
                                dim};
                on->run(op);
                CHECK(differences(operands.fetch(op.out.codes, count), want) == 0);
                CHECK(differences(operands.fetch(op.out.scales, count / 32), want_scales) == 0);
            }
        }
}

TEST_CASE("EngramGate: close to the reference, the same bits on every CPU") {
    for (auto [n, hc, dim] : {std::array{1, 1, 16}, {3, 2, 40}, {2, 4, 5120}, {9, 4, 128}}) {
        CAPTURE(dim);
        GateCase c(n, hc, dim, 2);
        std::vector<bf16> want = run_reference(c), cpu;
        for (auto& on : backends_present()) {
            CAPTURE(on.name());
            std::vector<bf16> got = run_on(on, c);
            CHECK(nmse(got, want) <= 1e-6);
            if (!on.cpu) continue;
            if (cpu.empty()) cpu = got;
            CHECK(differences(got, cpu) == 0);
        }
    }
}

TEST_CASE("EngramGate: a token does not depend on its neighbours, NaN stays in its stream") {
    GateCase c(5, 4, 96, 3), one(1, 4, 96, 3);
    c.kv[(3 * 5 + 2) * 96 + 8] = to_bf16(NAN);  // token 3, key of stream 2
    size_t row = 4 * 96, kv_row = 5 * 96;
    one.q_weight = c.q_weight;
    one.k_weight = c.k_weight;
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> all = run_on(on, c);
        for (int32_t i = 0; i < 5; ++i) {
            one.h.assign(c.h.begin() + i * row, c.h.begin() + (i + 1) * row);
            one.kv.assign(c.kv.begin() + i * kv_row, c.kv.begin() + (i + 1) * kv_row);
            CHECK(differences(run_on(on, one),
                              {all.begin() + i * row, all.begin() + (i + 1) * row}) == 0);
        }
        size_t wrong = 0;
        for (size_t d = 0; d < all.size(); ++d)
            wrong += std::isnan(to_float(all[d])) != (d / 96 == 3 * 4 + 2);
        CHECK(wrong == 0);
    }
}

// h orthogonal to the key: |d| is raised to 1e-6, its root to 1e-3, and the gate is just above one
// half. This shows where h + value / 2 is zero.
TEST_CASE("EngramGate: the floor under |d|") {
    GateCase c(1, 1, 32, 4);
    for (auto* v : {&c.h, &c.kv, &c.q_weight, &c.k_weight}) v->assign(v->size(), to_bf16(1.0f));
    for (int d = 0; d < 32; ++d) c.h[d] = to_bf16(d % 2 ? 0.5f : -0.5f);
    float g = sigmoid_f32(std::sqrt(1e-6f));
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> got = run_on(on, c);
        for (int d = 0; d < 32; ++d)
            CHECK(to_float(got[d]) == round_bf16(d % 2 ? 0.5f + g : -0.5f + g));
    }
}
