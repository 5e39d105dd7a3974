#include <doctest/doctest.h>

#include <array>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr bf16 bf16_infinity{0x7f80};
constexpr bf16 bf16_nan{0x7fc1};

std::vector<float> floats_of(const std::vector<bf16>& x, size_t count) {
    std::vector<float> v;
    for (size_t i = 0; i < count; ++i) v.push_back(to_float(x[i]));
    return v;
}

// The vectors of deepseek-v41.md section 11.
std::vector<bf16> described_input() {
    std::vector<bf16> x;
    for (int i = 0; i < 32; ++i)
        x.push_back(to_bf16(float(0.37 * std::sin(1 + 0.9 * i) * (1 + 0.2 * i))));
    return x;
}

// The vector of deepseek-v4.md section 10.
std::vector<bf16> described_vector() {
    std::vector<bf16> x;
    for (int i = 0; i < 128; ++i)
        x.push_back(to_bf16(float(std::sin(1 + 0.9 * i) * (1 + 0.05 * i))));
    return x;
}

std::vector<bf16> requant(const TestBackend& on, std::vector<bf16> x, Requant kind,
                          int32_t kept = 0) {
    Operands operands(on);
    bf16* device = operands.in(x);
    on->run(RopeRequant{device, 1, 1, int32_t(x.size()), {}, 0, 1, false, kind, kept});
    return operands.fetch(device, x.size());
}

std::vector<bf16> hadamard(const TestBackend& on, const std::vector<bf16>& x, int32_t dim) {
    Operands operands(on);
    bf16* device = operands.in(x);
    on->run(Hadamard{device, int32_t(x.size()) / dim, dim});
    return operands.fetch(device, x.size());
}

struct Quantised {
    std::vector<uint8_t> codes, scales;
};

Quantised quantise(const TestBackend& on, const std::vector<bf16>& x, int32_t n,
                   int32_t group = 32) {
    Operands operands(on);
    int32_t cols = int32_t(x.size()) / n;
    QuantRows out{operands.out<uint8_t>(x.size()), operands.out<uint8_t>(x.size() / 32)};
    on->run(ActQuant{out, operands.in(x), n, cols, group});
    return {operands.fetch(out.codes, x.size()), operands.fetch(out.scales, x.size() / 32)};
}

Quantised quantise_reference(const std::vector<bf16>& x, int32_t n, int32_t group) {
    Quantised q{std::vector<uint8_t>(x.size()), std::vector<uint8_t>(x.size() / 32)};
    reference::run(
        ActQuant{{q.codes.data(), q.scales.data()}, x.data(), n, int32_t(x.size()) / n, group});
    return q;
}

// Values of every size: all exponents, zeros, subnormals, now and then a non-finite one.
std::vector<bf16> wild(Random& random, size_t count) {
    std::vector<bf16> x(count);
    for (size_t g = 0; g < count; g += 32) {
        int exponent = random.below(256), spread = 1 + random.below(12);
        for (size_t i = g; i < std::min(count, g + 32); ++i) {
            int e = std::max(0, exponent - random.below(spread));
            x[i].bits = uint16_t((random.next() & 0x807f) | (uint32_t(e) << 7));
            if (random.below(8) == 0) x[i].bits &= 0x8000;
        }
    }
    return x;
}

}  // namespace

TEST_CASE("quant: the vectors of the specification") {
    auto x = described_input();
    REQUIRE(floats_of(x, 2) == std::vector<float>{0.310546875f, 0.419921875f});
    std::vector<float> fp4_e4m3 = {0.3515625f, 0.46875f,   0.1171875f, -0.3515625f,
                                   -0.703125f, -0.46875f,  0.1171875f, 0.703125f,
                                   0.9375f,    0.3515625f, -0.703125f, -1.40625f,
                                   -0.9375f,   0.234375f,  1.40625f,   1.40625f};
    std::vector<float> fp4_e8m0 = {0.25f, 0.5f,  0.25f, -0.25f, -0.75f, -0.5f, 0, 0.75f,
                                   1,     0.25f, -0.5f, -1,     -0.75f, 0.25f, 1, 1.5f};
    std::vector<float> fp8 = {0.3125f,  0.40625f, 0.171875f, -0.3125f,
                              -0.6875f, -0.5f,    0.09375f,  0.75f};
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        CHECK(floats_of(requant(on, x, Requant::fp4_16), 16) == fp4_e4m3);
        CHECK(floats_of(requant(on, x, Requant::fp4_32), 16) == fp4_e8m0);
        CHECK(floats_of(requant(on, x, Requant::fp8_32), 8) == fp8);
        auto q = quantise(on, x, 1);
        CHECK(q.scales[0] == 120);
        for (int i = 0; i < 8; ++i)
            CHECK(e4m3_to_float(q.codes[i]) * e8m0_to_float(q.scales[0]) == fp8[i]);
    }
}

TEST_CASE("quant: the scale rules") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> nine(32, to_bf16(0)), zero(32, to_bf16(0)), odd(32, to_bf16(0));
        nine[5] = to_bf16(9);
        nine[6] = to_bf16(0.75f);  // half a step of scale 1.5: a tie, to 1.5 * 0 or 1.5 * 1?
        odd[3] = to_bf16(9.25f);
        CHECK(to_float(requant(on, nine, Requant::fp4_16)[5]) == 9);  // 6 * 1.5
        CHECK(to_float(requant(on, nine, Requant::fp4_32)[5]) == 8);  // 4.5 -> 4, * 2
        CHECK(to_float(requant(on, nine, Requant::fp4_16)[6]) == 0.75f);
        CHECK(quantise(on, odd, 1).scales[0] == 122);
        CHECK(e4m3_to_float(quantise(on, odd, 1).codes[3]) == 288);
        CHECK(quantise(on, zero, 1).scales[0] == 105);
        CHECK(differences(requant(on, zero, Requant::fp4_16), zero) == 0);
        CHECK(differences(requant(on, zero, Requant::fp4_32), zero) == 0);
        std::vector<bf16> minus(32, to_bf16(-0.0f));
        CHECK(differences(requant(on, minus, Requant::fp8_32), minus) == 0);
    }
}

TEST_CASE("quant: act_quant equals the reference bit for bit") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Random random(1);
        for (int32_t n : {1, 2, 3, 17, 65})
            for (auto [cols, group] : {std::pair{32, 32},
                                       {64, 32},
                                       {96, 32},
                                       {160, 32},
                                       {5120, 32},
                                       {128, 128},
                                       {384, 128},
                                       {4096, 128}}) {
                if (int64_t(n) * cols > 100000) continue;
                for (auto x :
                     {random.activations(size_t(n) * cols), wild(random, size_t(n) * cols)}) {
                    auto got = quantise(on, x, n, group), want = quantise_reference(x, n, group);
                    REQUIRE(got.codes == want.codes);
                    REQUIRE(got.scales == want.scales);
                }
            }
    }
}

TEST_CASE("quant: a block with a non-finite value is NaN, its neighbours are not") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        for (bf16 bad : {bf16_infinity, bf16{0xff80}, bf16_nan, bf16{0xffff}}) {
            std::vector<bf16> x(96, to_bf16(2.5f));
            x[40] = bad;
            auto q = quantise(on, x, 1);
            CHECK(q.scales == std::vector<uint8_t>{122 - 2, 255, 122 - 2});
            CHECK(q.codes[40] == 0);
            CHECK(q.codes[33] == 0);
            CHECK(q.codes[0] != 0);
            for (Requant kind : {Requant::fp8_32, Requant::fp4_32, Requant::fp4_16}) {
                auto y = requant(on, x, kind);
                CHECK(std::isnan(to_float(y[40])));
                CHECK(std::isnan(to_float(y[32])));
                CHECK(std::isnan(to_float(y[63])) == (kind != Requant::fp4_16));
                CHECK(std::isfinite(to_float(y[31])));
                CHECK(std::isfinite(to_float(y[64])));
            }
        }
    }
}

TEST_CASE("quant: a group of 128 has one scale, and one non-finite value makes all of it NaN") {
    std::vector<bf16> x(384, to_bf16(0));
    x[3] = to_bf16(384);                     // scale 1
    x[100] = to_bf16(0.75f * 0.001953125f);  // between 0 and the smallest code, 2^-9
    x[256 + 40] = to_bf16(0.00146484375f);   // alone in its group, it has a scale of its own
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto q = quantise(on, x, 1, 128);
        CHECK(q.scales ==
              std::vector<uint8_t>{127, 127, 127, 127, 105, 105, 105, 105, 109, 109, 109, 109});
        CHECK(q.codes[100] == 1);
        CHECK(e4m3_to_float(q.codes[296]) == 384);
        for (bf16 bad : {bf16_infinity, bf16_nan}) {
            auto y = x;
            y[128 + 70] = bad;
            auto r = quantise(on, y, 1, 128);
            for (size_t b = 0; b < 12; ++b) CHECK(r.scales[b] == (b / 4 == 1 ? 255 : q.scales[b]));
            CHECK(r.codes == q.codes);
        }
    }
}

TEST_CASE("quant: in-place quantisers equal the reference bit for bit") {
    Random random(2);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        for (Requant kind : {Requant::fp8_32, Requant::fp4_32, Requant::fp4_16, Requant::fp8_64})
            for (int32_t kept : {0, 64, 576})
                for (int round = 0; round < 20; ++round) {
                    auto x = round % 2 ? random.activations(576) : wild(random, 576);
                    auto want = x;
                    reference::run(
                        RopeRequant{want.data(), 1, 1, 576, {}, 0, 1, false, kind, kept});
                    REQUIRE(differences(requant(on, x, kind, kept), want) == 0);
                }
    }
}

TEST_CASE("quant: the values of a group of 64 and those kept, as the specification has them") {
    auto x = described_vector();
    REQUIRE(floats_of(x, 3) == std::vector<float>{0.83984375f, 0.9921875f, 0.369140625f});
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto y = floats_of(requant(on, x, Requant::fp8_64, 64), 128);
        CHECK(std::vector(y.begin(), y.begin() + 6) ==
              std::vector<float>{0.8125f, 1, 0.375f, -0.625f, -1.25f, -0.875f});
        CHECK(std::vector(y.begin() + 58, y.begin() + 66) ==
              std::vector<float>{0.8125f, -2.5f, -4, -2.5f, 1, 3.75f, 3.71875f, 0.8046875f});
        auto odd = x;
        odd[20] = bf16_infinity;
        odd[100] = bf16_nan;
        auto bad = requant(on, odd, Requant::fp8_64, 64);
        for (size_t i = 0; i < 128; ++i)
            CHECK(std::isnan(to_float(bad[i])) == (i < 64 || i == 100));
    }
}

TEST_CASE("Hadamard: the vector of the specification, in natural order, and then FP4") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto y = hadamard(on, described_vector(), 128);
        CHECK(floats_of(y, 8) == std::vector<float>{0.75f, -0.1513671875f, -0.388671875f,
                                                    -0.447265625f, 0.90625f, 1.5390625f, 4,
                                                    -0.62109375f});
        CHECK(floats_of({y.begin() + 64, y.end()}, 4) ==
              std::vector<float>{-0.54296875f, -0.2060546875f, -0.56640625f, 0.337890625f});
        CHECK(floats_of(requant(on, y, Requant::fp4_32), 8) ==
              std::vector<float>{1, -0.0f, -0.5f, -0.5f, 1, 1.5f, 4, -0.5f});
    }
}

TEST_CASE("Hadamard: the reference bit by bit for every width, NaN only in its own vector") {
    Random random(5);
    for (int32_t dim = 1; dim <= 1024; dim *= 2)
        for (int32_t rows : {1, 3, 33}) {
            CAPTURE(dim);
            CAPTURE(rows);
            auto x = random.activations(size_t(rows) * dim), want = x;
            if (rows == 33)
                want[size_t(7) * dim + dim / 2] = x[size_t(7) * dim + dim / 2] = bf16_nan;
            reference::run(Hadamard{want.data(), rows, dim});
            for (auto& on : backends_present()) {
                CAPTURE(on.name());
                auto got = hadamard(on, x, dim);
                REQUIRE(differences(got, want) == 0);
                for (size_t i = 0; rows == 33 && i < got.size(); ++i)
                    REQUIRE(std::isnan(to_float(got[i])) == (i / dim == 7));
            }
        }
}

TEST_CASE("quant: rotation, position by position, and back") {
    Random random(3);
    constexpr int32_t first = 100, count = 80;
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        for (auto [n, heads, dim, half] :
             {std::array{1, 64, 512, 32}, std::array{3, 5, 96, 16}, std::array{17, 1, 192, 32},
              std::array{2, 3, 6, 3}, std::array{5, 2, 128, 13}}) {
            std::vector<float> cos(count * half), sin(count * half);
            for (size_t i = 0; i < cos.size(); ++i) {
                float angle = random.uniform(-3, 3);
                cos[i] = std::cos(angle);
                sin[i] = std::sin(angle);
            }
            RopeTable table{cos.data(), sin.data(), first, count, half};
            for (bool inverse : {false, true})
                for (Requant kind : {Requant::none, Requant::fp8_32, Requant::fp8_64}) {
                    int32_t kept = kind == Requant::fp8_64 ? 2 * half : 0;
                    if (kind == Requant::fp8_32 && dim % 32 != 0) continue;
                    if ((dim - kept) % 64 != 0 && kind == Requant::fp8_64) continue;
                    auto x = random.activations(size_t(n) * heads * dim);
                    auto want = x;
                    reference::run(RopeRequant{want.data(), n, heads, dim, table, first + 7, 2,
                                               inverse, kind, kept});
                    Operands operands(on);
                    RopeTable there{operands.in(cos), operands.in(sin), first, count, half};
                    bf16* y = operands.in(x);
                    on->run(
                        RopeRequant{y, n, heads, dim, there, first + 7, 2, inverse, kind, kept});
                    REQUIRE(differences(operands.fetch(y, x.size()), want) == 0);
                }
        }
    }
}

TEST_CASE("quant: rotating by a quarter turn swaps a pair, and leaves the front alone") {
    for (auto& on : backends_present()) {
        Operands operands(on);
        RopeTable table{operands.in(std::vector<float>{0}), operands.in(std::vector<float>{1}), 9,
                        1, 1};
        std::vector<bf16> x = {to_bf16(1), to_bf16(2), to_bf16(3), to_bf16(4)};
        bf16* y = operands.in(x);
        on->run(RopeRequant{y, 1, 1, 4, table, 9, 1, false, Requant::none});
        CHECK(floats_of(operands.fetch(y, 4), 4) == std::vector<float>{1, 2, -4, 3});
        on->run(RopeRequant{y, 1, 1, 4, table, 9, 1, true, Requant::none});
        CHECK(floats_of(operands.fetch(y, 4), 4) == std::vector<float>{1, 2, 3, 4});
    }
}

TEST_CASE("quant: scaling in place") {
    Random random(4);
    for (auto& on : backends_present())
        for (int32_t count : {1, 15, 16, 33, 4097}) {
            auto x = random.activations(count);
            x[0] = bf16_nan;
            auto want = x;
            reference::run(ScaleBf16{want.data(), count, 0.3f});
            Operands operands(on);
            bf16* y = operands.in(x);
            on->run(ScaleBf16{y, count, 0.3f});
            CHECK(differences(operands.fetch(y, count), want) == 0);
        }
}
