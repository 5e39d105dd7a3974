#include <doctest/doctest.h>

#include <functional>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

template <class T>
std::vector<T> slice(const std::vector<T>& v, int32_t first, int32_t count) {
    std::vector<T> part;
    for (int32_t i = 0; i < count; ++i) part.push_back(v[first + i]);
    return part;
}

float tree(float* v) {
    for (int step = 8; step > 0; step /= 2)
        for (int i = 0; i < step; ++i) v[i] = v[i] + v[i + step];
    return v[0];
}

// An FP8 linear on activations that are quantised (codes and scales) or bf16 (values, groups).
struct Fp8Case {
    int32_t n, rows, cols;
    std::vector<uint8_t> codes, scales;  // weight
    std::vector<uint8_t> x_codes, x_scales;
    std::vector<bf16> o;
    int32_t groups = 1;

    Fp8Matrix matrix(const uint8_t* c, const uint8_t* s) const { return {c, s, rows, cols}; }
    float activation(int32_t i, int32_t row, int32_t k) const {
        if (!o.empty()) return to_float(o[(size_t(i) * groups + row / (rows / groups)) * cols + k]);
        size_t at = size_t(i) * cols + k;
        return e4m3_to_float(x_codes[at]) * e8m0_to_float(x_scales[at / 32]);
    }
};

Fp8Case weights_only(Random& random, int32_t n, int32_t rows, int32_t cols) {
    Fp8Case c{n, rows, cols, random.e4m3(size_t(rows) * cols), {}, {}, {}, {}, 1};
    c.scales = random.e8m0(size_t((rows + 31) / 32) * (cols / 32), 112, 118);
    return c;
}

Fp8Case linear_case(Random& random, int32_t n, int32_t rows, int32_t cols) {
    Fp8Case c = weights_only(random, n, rows, cols);
    c.x_codes = random.e4m3(size_t(n) * cols);
    c.x_scales = random.e8m0(size_t(n) * (cols / 32), 115, 124);
    return c;
}

Fp8Case grouped_case(Random& random, int32_t n, int32_t groups, int32_t rank, int32_t cols) {
    Fp8Case c = weights_only(random, n, groups * rank, cols);
    c.groups = groups;
    c.o = random.activations(size_t(n) * groups * cols);
    return c;
}

std::vector<bf16> run_on(const TestBackend& on, const Fp8Case& c) {
    Operands operands(on);
    size_t count = size_t(c.n) * c.rows;
    bf16* y = operands.out<bf16>(count);
    Fp8Matrix w = c.matrix(operands.in(c.codes), operands.in(c.scales));
    if (c.o.empty())
        on->run(LinearFp8{y, w, {operands.in(c.x_codes), operands.in(c.x_scales)}, c.n});
    else
        on->run(GroupedOutput{y, w, operands.in(c.o), c.n, c.groups});
    return operands.fetch(y, count);
}

std::vector<bf16> run_reference(Fp8Case c) {
    std::vector<bf16> y(size_t(c.n) * c.rows);
    Fp8Matrix w = c.matrix(c.codes.data(), c.scales.data());
    if (c.o.empty())
        reference::run(LinearFp8{y.data(), w, {c.x_codes.data(), c.x_scales.data()}, c.n});
    else
        reference::run(GroupedOutput{y.data(), w, c.o.data(), c.n, c.groups});
    return y;
}

// The contract, literally, in fp32.
std::vector<bf16> literal(const Fp8Case& c) {
    std::vector<bf16> y;
    for (int32_t i = 0; i < c.n; ++i)
        for (int32_t r = 0; r < c.rows; ++r) {
            float acc[16] = {};
            for (int32_t b = 0; b < c.cols / 32; ++b)
                for (int l = 0; l < 16; ++l) {
                    auto product = [&](int32_t k) {
                        return e4m3_to_float(c.codes[size_t(r) * c.cols + k]) *
                               c.activation(i, r, k);
                    };
                    float t = product(32 * b + l) + product(32 * b + 16 + l);
                    acc[l] =
                        acc[l] + t * e8m0_to_float(c.scales[size_t(r / 32) * (c.cols / 32) + b]);
                }
            y.push_back(to_bf16(tree(acc)));
        }
    return y;
}

void check_bits(const Fp8Case& c) {
    auto want = literal(c);
    for (auto& on : backends_present()) {
        if (!on.cpu) continue;
        CAPTURE(on.name());
        CAPTURE(c.n);
        CAPTURE(c.rows);
        CAPTURE(c.cols);
        REQUIRE(differences(run_on(on, c), want) == 0);
    }
}

// A CUDA device's reserve() refuses ranks that are not a multiple of 16: see backend_test.
bool takes(const TestBackend& on, const Fp8Case& c) {
    return on.cpu || c.o.empty() || c.rows / c.groups % 16 == 0;
}

void check_near(const Fp8Case& c) {
    auto want = run_reference(c);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        if (!takes(on, c)) continue;
        REQUIRE(nmse(run_on(on, c), want) <= 1e-6);
    }
}

struct Bf16Case {
    int32_t n, rows, cols;
    std::vector<bf16> w, x;
};

Bf16Case bf16_case(Random& random, int32_t n, int32_t rows, int32_t cols) {
    return {n, rows, cols, random.activations(size_t(rows) * cols),
            random.activations(size_t(n) * cols)};
}

std::vector<float> run_on(const TestBackend& on, const Bf16Case& c) {
    Operands operands(on);
    size_t count = size_t(c.n) * c.rows;
    float* y = operands.out<float>(count);
    on->run(LinearBf16{nullptr, y, {operands.in(c.w), c.rows, c.cols}, operands.in(c.x), c.n});
    return operands.fetch(y, count);
}

std::vector<float> literal(const Bf16Case& c) {
    std::vector<float> y;
    for (int32_t i = 0; i < c.n; ++i)
        for (int32_t r = 0; r < c.rows; ++r) {
            float acc[16] = {};
            for (int32_t k = 0; k < c.cols; ++k)
                acc[k % 16] = acc[k % 16] + to_float(c.w[size_t(r) * c.cols + k]) *
                                                to_float(c.x[size_t(i) * c.cols + k]);
            y.push_back(tree(acc));
        }
    return y;
}

}  // namespace

TEST_CASE("linear: decoding the FP8 and FP4 bytes of the specification") {
    const uint8_t fp8[8] = {0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5};
    const float fp8_values[8] = {-0.00390625f, 0.03515625f,  -0.0390625f, 0.0703125f,
                                 0.03125f,     0.017578125f, -0.03125f,   -0.0126953125f};
    for (int i = 0; i < 8; ++i) CHECK(e4m3_to_float(fp8[i]) * e8m0_to_float(0x73) == fp8_values[i]);
    const uint8_t fp4[8] = {0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa};
    const float fp4_values[16] = {0,           -0.0078125f, 0,           -0.0078125f,
                                  -0.015625f,  -0.03125f,   -0.0078125f, 0.015625f,
                                  -0.0234375f, -0.0078125f, -0.046875f,  -0.0078125f,
                                  0.0078125f,  0.015625f,   -0.0078125f, -0.0078125f};
    for (int i = 0; i < 16; ++i) {
        int code = i % 2 ? fp4[i / 2] >> 4 : fp4[i / 2] & 15;
        CHECK(float(e2m1_to_twice(uint8_t(code))) * 0.5f * e8m0_to_float(0x78) == fp4_values[i]);
    }
}

TEST_CASE("linear: a row of one weight picks one activation") {
    Fp8Case c{2, 40, 64, std::vector<uint8_t>(40 * 64), {}, {}, {}, {}, 1};
    c.scales = {128, 127, 127, 126};  // rows 0..31: 2, 1; rows 32..39: 1, 1/2
    c.x_codes.assign(128, 0);
    c.x_scales.assign(4, 127);
    c.codes[3 * 64 + 7] = 0x38;    // 1
    c.codes[39 * 64 + 50] = 0x40;  // 2
    c.x_codes[7] = 0x44;           // 3
    c.x_codes[64 + 50] = 0xb8;     // -1
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto y = run_on(on, c);
        for (int i = 0; i < 80; ++i) {
            float want = i == 3 ? 6.0f : i == 79 ? -1.0f : 0.0f;
            CHECK(to_float(y[i]) == want);
        }
    }
}

TEST_CASE("linear: FP8 near the reference, and on the CPU the contract's bits") {
    Random random(31);
    for (int32_t n : {1, 2, 3, 4, 5, 17, 65})
        for (int32_t rows : {1, 7, 33, 100})
            for (int32_t cols : {32, 64, 96, 160, 1056}) {
                if (int64_t(n) * rows * cols > 1'500'000) continue;
                Fp8Case c = linear_case(random, n, rows, cols);
                check_near(c);
                check_bits(c);
            }
    for (int32_t n : {1, 3}) {
        Fp8Case c = linear_case(random, n, 45, 5120);
        check_near(c);
        check_bits(c);
    }
}

TEST_CASE("linear: grouped output near the reference, and on the CPU the contract's bits") {
    Random random(32);
    for (int32_t n : {1, 2, 3, 17, 65})
        for (auto [groups, rank, cols] : {std::array{1, 5, 32}, std::array{2, 32, 96},
                                          std::array{3, 20, 160}, std::array{8, 9, 512}}) {
            Fp8Case c = grouped_case(random, n, groups, rank, cols);
            check_near(c);
            check_bits(c);
        }
}

TEST_CASE("linear: scales and activations at the ends of their range keep the contract's bits") {
    Random random(33);
    for (int32_t n : {1, 6})
        for (auto [low, high] : {std::pair{0, 1}, {0, 254}, {250, 254}, {60, 190}, {76, 78}}) {
            Fp8Case c = linear_case(random, n, 37, 160);
            c.scales = random.e8m0(c.scales.size(), low, high);
            check_bits(c);
            c.x_scales = random.e8m0(c.x_scales.size(), low, high);
            check_bits(c);
            c = linear_case(random, n, 37, 160);
            c.x_scales[random.below(int(c.x_scales.size()))] = uint8_t(low);
            check_bits(c);
            Fp8Case g = grouped_case(random, n, 2, 20, 96);
            for (bf16& x : g.o)
                x.bits = uint16_t((random.next() & 0x807f) |
                                  uint32_t(low + random.below(high - low + 1)) << 7);
            check_bits(g);
        }
}

TEST_CASE("linear: NaN of a weight, a scale or an activation reaches exactly its outputs") {
    Random random(34);
    for (int32_t n : {1, 2, 9}) {
        Fp8Case base = linear_case(random, n, 70, 96);
        Fp8Case weight = base, scale = base, block = base;
        weight.codes[41 * 96 + 65] = 0x7f;
        weight.codes[69 * 96 + 3] = 0xff;
        scale.scales[1 * 3 + 2] = 255;
        std::fill(block.x_codes.begin() + (n - 1) * 96 + 32,
                  block.x_codes.begin() + (n - 1) * 96 + 64, uint8_t(0));
        block.x_scales[(n - 1) * 3 + 1] = 255;
        auto expect = [&](const Fp8Case& c, const std::function<bool(int, int)>& bad) {
            for (auto& on : backends_present()) {
                CAPTURE(on.name());
                if (!takes(on, c)) continue;
                auto y = run_on(on, c);
                for (int i = 0; i < n; ++i)
                    for (int r = 0; r < 70; ++r)
                        REQUIRE(std::isnan(to_float(y[size_t(i) * 70 + r])) == bad(i, r));
            }
            check_bits(c);
        };
        expect(weight, [](int, int r) { return r == 41 || r == 69; });
        expect(scale, [](int, int r) { return r >= 32 && r < 64; });
        expect(block, [&](int i, int) { return i == n - 1; });
        Fp8Case grouped = grouped_case(random, n, 2, 35, 96);
        grouped.o[size_t((n - 1) * 2 + 1) * 96 + 20] = bf16{0x7fc0};
        expect(grouped, [&](int i, int r) { return i == n - 1 && r >= 35; });
    }
}

TEST_CASE("linear: a token's outputs do not depend on how many tokens come with it") {
    Random random(35);
    Fp8Case all = linear_case(random, 65, 64, 320);
    Bf16Case plain = bf16_case(random, 65, 50, 200);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto together = run_on(on, all);
        auto together_plain = run_on(on, plain);
        for (auto [first, n] : {std::pair{0, 1}, {64, 1}, {7, 2}, {30, 13}}) {
            Fp8Case part = all;
            part.n = n;
            part.x_codes = slice(all.x_codes, first * 320, n * 320);
            part.x_scales = slice(all.x_scales, first * 10, n * 10);
            auto want = slice(together, first * 64, n * 64);
            CHECK(differences(run_on(on, part), want) == 0);
            Bf16Case some = plain;
            some.n = n;
            some.x = slice(plain.x, first * 200, n * 200);
            auto want_plain = slice(together_plain, first * 50, n * 50);
            CHECK(differences(run_on(on, some), want_plain) == 0);
        }
    }
}

TEST_CASE("linear: BF16 near the reference, and on the CPU the contract's bits") {
    Random random(36);
    for (int32_t n : {1, 2, 3, 5, 17, 65})
        for (int32_t rows : {1, 6, 33})
            for (int32_t cols : {1, 15, 16, 40, 96, 160, 5120}) {
                if (int64_t(n) * rows * cols > 500'000) continue;
                Bf16Case c = bf16_case(random, n, rows, cols);
                auto want = literal(c);
                std::vector<float> near(want.size());
                reference::run(
                    LinearBf16{nullptr, near.data(), {c.w.data(), rows, cols}, c.x.data(), n});
                for (auto& on : backends_present()) {
                    CAPTURE(on.name());
                    auto y = run_on(on, c);
                    REQUIRE(nmse(y, near) <= 1e-10);
                    REQUIRE((!on.cpu || differences(y, want) == 0));
                    Operands operands(on);
                    bf16* rounded = operands.out<bf16>(y.size());
                    on->run(LinearBf16{
                        rounded, nullptr, {operands.in(c.w), rows, cols}, operands.in(c.x), n});
                    auto r = operands.fetch(rounded, y.size());
                    for (size_t k = 0; k < y.size(); ++k) REQUIRE(r[k].bits == to_bf16(y[k]).bits);
                }
            }
}

TEST_CASE("linear: BF16 treats tiny, huge and non-finite numbers as the contract does") {
    Random random(37);
    for (int32_t n : {1, 6}) {
        Bf16Case c = bf16_case(random, n, 9, 80);
        for (auto* side : {&c.w, &c.x})
            for (bf16& v : *side)
                v.bits = uint16_t((random.next() & 0x807f) | uint32_t(random.below(140)) << 7);
        c.w[2 * 80 + 5] = bf16{0x7fc0};
        c.w[3 * 80 + 5] = bf16{0x7f80};
        auto want = literal(c);
        for (auto& on : backends_present()) {
            if (!on.cpu) continue;
            CAPTURE(on.name());
            auto y = run_on(on, c);
            CHECK(differences(y, want) == 0);
            CHECK(std::isnan(y[2]));
            CHECK(!std::isfinite(y[3]));
        }
    }
}
