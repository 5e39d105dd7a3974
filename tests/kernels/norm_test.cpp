#include <doctest/doctest.h>

#include <array>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Case {
    int32_t n, cols;
    float eps;
    std::vector<bf16> x, w;
};

std::vector<bf16> run_on(const TestBackend& on, const Case& c) {
    Operands operands(on);
    bf16* y = operands.out<bf16>(c.x.size());
    on->run(RmsNorm{y, operands.in(c.x), operands.in(c.w), c.n, c.cols, c.eps});
    return operands.fetch(y, c.x.size());
}

std::vector<bf16> run_reference(const Case& c) {
    std::vector<bf16> y(c.x.size());
    reference::run(RmsNorm{y.data(), c.x.data(), c.w.data(), c.n, c.cols, c.eps});
    return y;
}

// The contract, literally, in fp32 for one row.
std::vector<bf16> literal_row(const bf16* x, const std::vector<bf16>& w, float eps) {
    int32_t cols = int32_t(w.size());
    float lane[16] = {};
    for (int32_t k = 0; k < cols; ++k)
        lane[k % 16] = lane[k % 16] + to_float(x[k]) * to_float(x[k]);
    for (int step = 8; step > 0; step /= 2)
        for (int i = 0; i < step; ++i) lane[i] = lane[i] + lane[i + step];
    float r = 1.0f / std::sqrt(lane[0] / float(cols) + eps);
    std::vector<bf16> y(cols);
    for (int32_t k = 0; k < cols; ++k) y[k] = to_bf16(to_float(w[k]) * (to_float(x[k]) * r));
    return y;
}

std::vector<bf16> head_norm(const TestBackend& on, const std::vector<bf16>& x, int32_t n,
                            int32_t heads, float eps) {
    Operands operands(on);
    bf16* device = operands.in(x);
    on->run(HeadNorm{device, n, heads, int32_t(x.size()) / (n * heads), eps});
    return operands.fetch(device, x.size());
}

// HeadNorm of one head by the contract, in place.
void literal_head(bf16* x, int32_t dim, float eps) {
    float lane[16] = {};
    for (int32_t k = 0; k < dim; ++k)
        lane[k % 16] = lane[k % 16] + round_bf16(to_float(x[k]) * to_float(x[k]));
    for (int step = 8; step > 0; step /= 2)
        for (int i = 0; i < step; ++i) lane[i] = lane[i] + lane[i + step];
    float m = round_bf16(lane[0] / float(dim));
    float rho = round_bf16(1.0f / std::sqrt(round_bf16(m + eps)));
    for (int32_t k = 0; k < dim; ++k) x[k] = to_bf16(to_float(x[k]) * rho);
}

}  // namespace

TEST_CASE("norm: near the reference, and on the CPU the contract's bits") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Random random(11);
        for (int32_t n : {1, 2, 3, 17, 65})
            for (int32_t cols : {1, 15, 16, 32, 96, 100, 160, 192, 5120}) {
                if (int64_t(n) * cols > 100000) continue;
                Case c{n, cols, 1e-20f, random.activations(size_t(n) * cols), random.weights(cols)};
                auto got = run_on(on, c);
                REQUIRE(nmse(got, run_reference(c)) <= 1e-6);
                if (!on.cpu) continue;
                for (int32_t i = 0; i < n; ++i) {
                    size_t at = size_t(i) * cols;
                    std::vector<bf16> row(got.begin() + at, got.begin() + at + cols);
                    REQUIRE(differences(row, literal_row(c.x.data() + at, c.w, c.eps)) == 0);
                }
            }
    }
}

TEST_CASE("norm: a row does not depend on the rows beside it, and y may be x") {
    Random random(12);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Case all{17, 5120, 1e-6f, random.activations(17 * 5120), random.weights(5120)};
        auto together = run_on(on, all);
        Case last{1, 5120, 1e-6f, {all.x.end() - 5120, all.x.end()}, all.w};
        CHECK(differences(run_on(on, last), {together.end() - 5120, together.end()}) == 0);
        Operands operands(on);
        bf16* x = operands.in(all.x);
        on->run(RmsNorm{x, x, operands.in(all.w), 17, 5120, 1e-6f});
        CHECK(differences(operands.fetch(x, all.x.size()), together) == 0);
    }
}

TEST_CASE("norm: zeros stay zero with an eps, non-finite values end as NaN") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Case c{4, 64, 1e-20f, std::vector<bf16>(256, to_bf16(0)),
               std::vector<bf16>(64, to_bf16(2))};
        c.x[64 + 3] = bf16{0x7fc0};
        c.x[128 + 3] = bf16{0x7f80};
        c.x[192 + 3] = to_bf16(-3);
        auto y = run_on(on, c);
        for (int k = 0; k < 64; ++k) {
            CHECK(to_float(y[k]) == 0);
            CHECK(std::isnan(to_float(y[64 + k])));
        }
        CHECK(std::isnan(to_float(y[128 + 3])));  // infinity * 0
        CHECK(to_float(y[192 + 3]) == -16);       // 2 * -3 / sqrt(9 / 64)
    }
}

TEST_CASE("HeadNorm: the vector of the specification, whose factor is a bf16 number") {
    std::vector<bf16> x;
    for (int i = 0; i < 128; ++i)
        x.push_back(to_bf16(float(std::sin(1 + 0.9 * i) * (1 + 0.05 * i))));
    const float want[] = {0.259765625f,   0.306640625f,  0.11376953125f,
                          -0.1884765625f, -0.369140625f, -0.271484375f};
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto y = head_norm(on, x, 1, 1, 1e-6f);
        for (int i = 0; i < 6; ++i) CHECK(to_float(y[i]) == want[i]);
        for (int i = 0; i < 128; ++i)
            CHECK(to_float(y[i]) == round_bf16(to_float(x[i]) * 0.30859375f));
    }
}

TEST_CASE("HeadNorm: near the reference, on the CPU the contract's bits, no head for another") {
    Random random(13);
    for (auto [n, heads, dim] : {std::array{1, 1, 1},
                                 {1, 3, 15},
                                 {2, 2, 16},
                                 {3, 5, 100},
                                 {17, 2, 96},
                                 {1, 64, 512},
                                 {65, 4, 128}}) {
        CAPTURE(n);
        CAPTURE(dim);
        auto x = random.activations(size_t(n) * heads * dim), near = x, literal = x;
        reference::run(HeadNorm{near.data(), n, heads, dim, 1e-6f});
        for (int32_t h = 0; h < n * heads; ++h)
            literal_head(literal.data() + size_t(h) * dim, dim, 1e-6f);
        for (auto& on : backends_present()) {
            CAPTURE(on.name());
            auto got = head_norm(on, x, n, heads, 1e-6f);
            REQUIRE(nmse(got, near) <= 1e-6);
            if (on.cpu) REQUIRE(differences(got, literal) == 0);
            size_t at = got.size() - dim;
            auto last = head_norm(on, {x.begin() + ptrdiff_t(at), x.end()}, 1, 1, 1e-6f);
            REQUIRE(differences(last, {got.begin() + ptrdiff_t(at), got.end()}) == 0);
        }
    }
}

TEST_CASE("HeadNorm: zeros stay zero, NaN stays in its head") {
    std::vector<bf16> x(3 * 64, to_bf16(0));
    x[64 + 9] = bf16{0x7fc0};
    x[128 + 3] = to_bf16(-4);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto y = head_norm(on, x, 1, 3, 1e-6f);
        for (int k = 0; k < 64; ++k) {
            CHECK(to_float(y[k]) == 0);
            CHECK(std::isnan(to_float(y[64 + k])));
            CHECK(to_float(y[128 + k]) == (k == 3 ? -8 : 0));  // -4 / sqrt(16 / 64)
        }
    }
}
