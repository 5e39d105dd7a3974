#include <doctest/doctest.h>

#include <array>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct RouteCase {
    int32_t n, experts, dim, k;
    float scale = 1.5f;
    std::vector<bf16> gate, x;
    std::vector<float> bias;

    RouteCase(int32_t n, int32_t experts, int32_t dim, int32_t k, uint64_t seed)
        : n(n), experts(experts), dim(dim), k(k) {
        Random random(seed);
        gate = random.activations(size_t(experts) * dim);
        for (bf16& w : gate) w = to_bf16(to_float(w) / std::sqrt(float(dim)));
        x = random.activations(size_t(n) * dim);
        bias = random.floats(experts, -0.5f, 0.5f);
    }
    size_t choices() const { return size_t(n) * k; }
};

struct Routes {
    std::vector<int32_t> ids;
    std::vector<float> weights;
};

Routes run_on(const TestBackend& on, const RouteCase& c) {
    Operands operands(on);
    Route op{operands.out<int32_t>(c.choices()),
             operands.out<float>(c.choices()),
             {operands.in(c.gate), c.experts, c.dim},
             operands.in(c.bias),
             operands.in(c.x),
             c.n,
             c.k,
             c.scale};
    on->run(op);
    return {operands.fetch(op.ids, c.choices()), operands.fetch(op.weights, c.choices())};
}

Routes run_reference(const RouteCase& c) {
    Routes r{std::vector<int32_t>(c.choices()), std::vector<float>(c.choices())};
    reference::run(Route{r.ids.data(),
                         r.weights.data(),
                         {c.gate.data(), c.experts, c.dim},
                         c.bias.data(),
                         c.x.data(),
                         c.n,
                         c.k,
                         c.scale});
    return r;
}

}  // namespace

TEST_CASE("Route: the experts of the reference, weights close, the same bits on every CPU") {
    for (auto [n, experts, dim, k] : {std::array{1, 384, 5120, 6},
                                      {9, 384, 640, 6},
                                      {3, 5, 24, 5},
                                      {6, 17, 40, 3},
                                      {5, 33, 32, 1},
                                      {4, 1, 16, 1},
                                      {2, 128, 7, 8}}) {
        CAPTURE(experts);
        CAPTURE(dim);
        RouteCase c(n, experts, dim, k, 1);
        Routes want = run_reference(c), cpu;
        for (auto& on : backends_present()) {
            CAPTURE(on.name());
            Routes got = run_on(on, c);
            CHECK(differences(got.ids, want.ids) == 0);
            CHECK(nmse(got.weights, want.weights) <= 1e-10);
            if (!on.cpu) continue;
            if (cpu.ids.empty()) cpu = got;
            CHECK(differences(got.weights, cpu.weights) == 0);
        }
    }
}

TEST_CASE("Route: equal scores go to the lower expert") {
    RouteCase c(3, 20, 32, 4, 2);
    for (int32_t e = 1; e < 20; ++e)
        for (int32_t d = 0; d < 32; ++d) c.gate[e * 32 + d] = c.gate[d];
    c.bias.assign(20, 0.0f);
    c.bias[11] = c.bias[7] = 0.25f;
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Routes got = run_on(on, c);
        for (int32_t i = 0; i < 3; ++i) {
            std::vector<int32_t> ids(got.ids.begin() + i * 4, got.ids.begin() + i * 4 + 4);
            CHECK(ids == std::vector<int32_t>{7, 11, 0, 1});
            for (int32_t j = 0; j < 4; ++j)  // the bias chooses, the score weighs
                CHECK(got.weights[i * 4 + j] == doctest::Approx(1.5 / 4).epsilon(1e-5));
        }
    }
}

TEST_CASE("Route: one expert keeps its score, large logits are their own softplus") {
    RouteCase c(1, 3, 16, 1, 3);
    c.gate.assign(c.gate.size(), to_bf16(0.0f));
    c.x.assign(16, to_bf16(1.0f));
    c.bias.assign(3, 0.0f);
    c.gate[16] = to_bf16(64.0f);  // expert 1: z = 64
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Routes got = run_on(on, c);
        CHECK(got.ids[0] == 1);
        CHECK(got.weights[0] == 8.0f * 1.5f);
    }
}

TEST_CASE("Route: NaN in a token makes its routes NaN, and no others") {
    RouteCase c(3, 12, 32, 2, 4), clean = c;
    c.x[32 + 5] = to_bf16(NAN);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Routes got = run_on(on, c), want = run_on(on, clean);
        for (size_t j = 0; j < 6; ++j) {
            bool nan = j / 2 == 1;
            CHECK(got.ids[j] == (nan ? -1 : want.ids[j]));
            CHECK(std::isnan(got.weights[j]) == nan);
        }
        RouteCase biased = clean;
        biased.bias[11] = NAN;
        got = run_on(on, biased);
        for (size_t j = 0; j < 6; ++j) CHECK(got.ids[j] == -1);
    }
}

TEST_CASE("Route: a token does not depend on its neighbours") {
    RouteCase c(7, 50, 72, 6, 5), one = c;
    one.n = 1;
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Routes all = run_on(on, c);
        for (int32_t i = 0; i < 7; ++i) {
            one.x.assign(c.x.begin() + i * 72, c.x.begin() + (i + 1) * 72);
            Routes got = run_on(on, one);
            for (int32_t j = 0; j < 6; ++j) {
                CHECK(got.ids[j] == all.ids[i * 6 + j]);
                CHECK(bits_of(got.weights[j]) == bits_of(all.weights[i * 6 + j]));
            }
        }
    }
}
