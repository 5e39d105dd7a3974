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
    std::vector<int32_t> given;  // empty: the router chooses
    float sum_floor = 1e-20f;
    bool normalise_one = false;

    RouteCase(int32_t n, int32_t experts, int32_t dim, int32_t k, uint64_t seed)
        : n(n), experts(experts), dim(dim), k(k) {
        Random random(seed);
        gate = random.activations(size_t(experts) * dim);
        for (bf16& w : gate) w = to_bf16(to_float(w) / std::sqrt(float(dim)));
        x = random.activations(size_t(n) * dim);
        bias = random.floats(experts, -0.5f, 0.5f);
    }
    size_t choices() const { return size_t(n) * k; }
    Route op() const {
        Route op{};
        op.gate = {nullptr, experts, dim};
        op.n = n;
        op.k = k;
        op.scale = scale;
        op.sum_floor = sum_floor;
        op.normalise_one = normalise_one;
        op.given = !given.empty();
        return op;
    }
};

struct Routes {
    std::vector<int32_t> ids;
    std::vector<float> weights;
};

Routes run_on(const TestBackend& on, const RouteCase& c) {
    Operands operands(on);
    Route op = c.op();
    op.ids = op.given ? operands.in(c.given) : operands.out<int32_t>(c.choices());
    op.weights = operands.out<float>(c.choices());
    op.gate.data = operands.in(c.gate);
    op.bias = op.given ? nullptr : operands.in(c.bias);
    op.x = operands.in(c.x);
    on->run(op);
    return {operands.fetch(op.ids, c.choices()), operands.fetch(op.weights, c.choices())};
}

Routes run_reference(const RouteCase& c) {
    Routes r{std::vector<int32_t>(c.choices()), std::vector<float>(c.choices())};
    Route op = c.op();
    if (op.given) r.ids = c.given;
    op.ids = r.ids.data();
    op.weights = r.weights.data();
    op.gate.data = c.gate.data();
    op.bias = c.bias.data();
    op.x = c.x.data();
    reference::run(op);
    return r;
}

// Each expert's logit is given for a token that is 1, 0, 0, ...
RouteCase case_of_logits(std::initializer_list<float> logits, int32_t k) {
    RouteCase c(1, int32_t(logits.size()), 16, k, 3);
    c.gate.assign(c.gate.size(), to_bf16(0.0f));
    for (size_t e = 0; e < logits.size(); ++e) c.gate[e * 16] = to_bf16(logits.begin()[e]);
    c.x.assign(16, to_bf16(0.0f));
    c.x[0] = to_bf16(1.0f);
    c.bias.assign(logits.size(), 0.0f);
    return c;
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
    RouteCase c = case_of_logits({0, 64, 0}, 1);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Routes got = run_on(on, c);
        CHECK(got.ids[0] == 1);
        CHECK(got.weights[0] == 8.0f * 1.5f);
    }
}

TEST_CASE("Route: experts given, in their order, with the scores of the specification") {
    const float scores[] = {0.832555f, 1.145976f, 0.220425f, 2.828486f, 5.0f};
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        RouteCase c = case_of_logits({0, 1, -3, 8, 25}, 1);
        c.scale = 1.0f;
        for (int32_t e = 0; e < 5; ++e) {
            c.given = {e};
            Routes got = run_on(on, c);
            CHECK(got.ids == c.given);
            CHECK(std::fabs(got.weights[0] - scores[e]) < 1e-6f);
        }
        c.k = 3;
        c.scale = 1.5f;
        c.given = {3, 0, 4};
        Routes got = run_on(on, c);
        CHECK(got.ids == c.given);
        for (int32_t j = 0; j < 3; ++j)
            CHECK(got.weights[j] ==
                  doctest::Approx(scores[c.given[j]] * 1.5 / 8.661041).epsilon(1e-6));
    }
}

TEST_CASE("Route: one expert is normalised if asked, and the floor belongs to the sum") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        RouteCase c = case_of_logits({0, 25, 1}, 1);
        c.sum_floor = 0;
        CHECK(run_on(on, c).weights[0] == 5.0f * 1.5f);
        c.normalise_one = true;
        CHECK(run_on(on, c).weights[0] == 1.5f);
        c.sum_floor = 3.0f;
        CHECK(run_on(on, c).weights[0] == 5.0f / 8.0f * 1.5f);
        c.normalise_one = false;
        c.k = 2;
        c.bias = {9, 9, 0};  // experts 0 and 1
        Routes got = run_on(on, c);
        CHECK(got.ids == std::vector<int32_t>{1, 0});
        CHECK(got.weights[0] == doctest::Approx(5 / 8.832555 * 1.5).epsilon(1e-6));
    }
}

TEST_CASE("Route: experts given at awkward sizes, NaN anywhere in a token's scores") {
    for (auto [n, experts, dim, k] :
         {std::array{1, 256, 4096, 6}, {9, 256, 640, 6}, {6, 17, 40, 3}, {5, 33, 32, 1}}) {
        CAPTURE(experts);
        RouteCase c(n, experts, dim, k, 6);
        Random random(7);
        c.sum_floor = 0;
        for (size_t j = 0; j < c.choices(); ++j)
            c.given.push_back((random.below(experts / k) * k + int32_t(j % k)) % experts);
        RouteCase bad = c;
        bad.x[size_t(n / 2) * dim + 3] = to_bf16(NAN);
        Routes want = run_reference(c), cpu;
        for (auto& on : backends_present()) {
            CAPTURE(on.name());
            Routes got = run_on(on, c), odd = run_on(on, bad);
            CHECK(got.ids == c.given);
            CHECK(nmse(got.weights, want.weights) <= 1e-10);
            for (size_t j = 0; j < c.choices(); ++j) {
                bool nan = int32_t(j) / k == n / 2;
                CHECK(odd.ids[j] == (nan ? -1 : c.given[j]));
                CHECK(std::isnan(odd.weights[j]) == nan);
            }
            if (!on.cpu) continue;
            if (cpu.ids.empty()) cpu = got;
            CHECK(differences(got.weights, cpu.weights) == 0);
        }
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
