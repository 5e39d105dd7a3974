#include <doctest/doctest.h>

#include <array>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr bf16 untouched{0xffff};

struct ExpertCase {
    int32_t dim, inner, count, group = 32;
    std::vector<uint8_t> codes[3], scales[3];  // w1, w2, w3, each shifted by one byte
    std::vector<uint8_t> x, x_scales;
    std::vector<int32_t> rows, slots;
    std::vector<float> weights;

    ExpertCase(int32_t dim, int32_t inner, int32_t count, uint64_t seed)
        : dim(dim), inner(inner), count(count) {
        Random random(seed);
        size_t values = size_t(dim) * inner;
        for (int m = 0; m < 3; ++m) {
            codes[m] = random.bytes(values / 2 + 1);
            scales[m] = random.e8m0(values / 32 + 1, 116, 122);
        }
        x = random.e4m3(size_t(count) * dim);
        x_scales = random.e8m0(size_t(count) * dim / 32, 112, 118);
        for (int32_t t = 0; t < count; ++t) {  // backwards, with gaps between the slots
            rows.push_back(count - 1 - t);
            slots.push_back(2 * t + 1);
            weights.push_back(0.25f + 0.5f * float(t % 3));
        }
    }

    size_t out_size() const { return (2 * size_t(count) + 1) * dim; }

    RoutedExpert op(bf16* out, const uint8_t* const (&w)[3], const uint8_t* const (&s)[3]) const {
        Fp4Matrix w1{w[0] + 1, s[0] + 1, inner, dim};
        Fp4Matrix w2{w[1] + 1, s[1] + 1, dim, inner};
        Fp4Matrix w3{w[2] + 1, s[2] + 1, inner, dim};
        return {out, {w1, w2, w3}, {}, nullptr, nullptr, nullptr, count, 10.0f, group};
    }

    // One inner block in four is 2^16 times smaller, and w2 makes up for it: most of its values are
    // lost in a group of 128, and none in groups of 32.
    void spread_blocks() {
        group = 128;
        for (int32_t r = 0; r < inner; ++r)
            for (int32_t b = 0; r / 32 % 4 == 1 && b < dim / 32; ++b)
                scales[0][1 + size_t(r) * (dim / 32) + b] -= 16;
        for (int32_t r = 0; r < dim; ++r)
            for (int32_t b = 1; b < inner / 32; b += 4)
                scales[1][1 + size_t(r) * (inner / 32) + b] += 16;
    }
};

// Odd addresses are for the CPU, which reads slots in place; on a device operands are aligned when
// uploaded.
const uint8_t* place(const TestBackend& on, Operands& operands, const std::vector<uint8_t>& bytes) {
    if (on.cpu) return operands.in(bytes);
    return operands.in(std::vector<uint8_t>(bytes.begin() + 1, bytes.end())) - 1;
}

// Rows first .. first + count - 1 of the case.
std::vector<bf16> run_on(const TestBackend& on, const ExpertCase& c, int32_t first, int32_t count) {
    Operands operands(on);
    const uint8_t *w[3], *s[3];
    // Odd addresses are for the CPU, which reads slots in place; on a device operands are aligned
    // when uploaded.
    auto place = [&](const std::vector<uint8_t>& bytes) -> const uint8_t* {
        if (on.cpu) return operands.in(bytes);
        return operands.in(std::vector<uint8_t>(bytes.begin() + 1, bytes.end())) - 1;
    };
    for (int m = 0; m < 3; ++m) {
        w[m] = place(c.codes[m]);
        s[m] = place(c.scales[m]);
    }
    bf16* out = operands.out<bf16>(c.out_size());
    RoutedExpert op = c.op(out, w, s);
    op.x = {operands.in(c.x), operands.in(c.x_scales)};
    op.rows = operands.in(c.rows) + first;
    op.slots = operands.in(c.slots) + first;
    op.weights = operands.in(c.weights) + first;
    op.count = count;
    on->run(op);
    return operands.fetch(out, c.out_size());
}
std::vector<bf16> run_on(const TestBackend& on, const ExpertCase& c) {
    return run_on(on, c, 0, c.count);
}

std::vector<bf16> run_reference(ExpertCase& c) {
    std::vector<bf16> out(c.out_size(), untouched);
    const uint8_t *w[3], *s[3];
    for (int m = 0; m < 3; ++m) {
        w[m] = c.codes[m].data();
        s[m] = c.scales[m].data();
    }
    RoutedExpert op = c.op(out.data(), w, s);
    op.x = {c.x.data(), c.x_scales.data()};
    op.rows = c.rows.data();
    op.slots = c.slots.data();
    op.weights = c.weights.data();
    reference::run(op);
    return out;
}

void check_expert(const std::vector<TestBackend>& backends, ExpertCase& c) {
    std::vector<bf16> want = run_reference(c);
    for (auto& on : backends) {
        CAPTURE(on.name());
        CHECK(differences(run_on(on, c), want) == 0);
    }
}

}  // namespace

TEST_CASE("RoutedExpert: the bits of the reference at awkward sizes") {
    for (auto [dim, inner, count] : {std::array{32, 32, 1},
                                     {64, 32, 2},
                                     {96, 64, 3},
                                     {256, 96, 4},
                                     {288, 160, 5},
                                     {544, 288, 7},
                                     {1056, 544, 17},
                                     {128, 64, 40},
                                     {2048, 320, 1}}) {
        CAPTURE(dim);
        CAPTURE(inner);
        CAPTURE(count);
        ExpertCase c(dim, inner, count, 1);
        check_expert(backends_present(), c);
    }
}

TEST_CASE("RoutedExpert: groups of 128, which lose what is small beside its neighbours") {
    auto backends = backends_present();
    for (auto [dim, inner, count] : {std::array{128, 128, 1},
                                     {96, 128, 2},
                                     {256, 384, 3},
                                     {288, 128, 5},
                                     {544, 640, 9},
                                     {1056, 896, 17},
                                     {128, 128, 40},
                                     {4096, 2048, 1}}) {
        CAPTURE(dim);
        CAPTURE(inner);
        CAPTURE(count);
        ExpertCase wide(dim, inner, count, 14);
        wide.spread_blocks();
        check_expert(backends, wide);
        ExpertCase narrow = wide;
        narrow.group = 32;
        CHECK(differences(run_reference(narrow), run_reference(wide)) > 0);
    }
}

TEST_CASE("RoutedExpert: the bits of the reference at the model's size") {
    ExpertCase c(5120, 2304, 2, 2);
    check_expert(backends_present(), c);
}

TEST_CASE("RoutedExpert: every kind of scale byte") {
    for (int byte : {0, 1, 10, 11, 12, 127, 254, 255}) {
        CAPTURE(byte);
        auto b = uint8_t(byte);
        auto backends = backends_present();
        for (int32_t count : {2, 13}) {
            ExpertCase weights(544, 32, count, 3), activations(544, 32, count, 4),
                mixed(544, 32, count, 5);
            for (auto& scales : weights.scales) scales.assign(scales.size(), b);
            activations.x_scales.assign(activations.x_scales.size(), b);
            for (auto& scales : mixed.scales)
                for (size_t i = 0; i < scales.size(); i += 7) scales[i] = b;
            for (size_t i = 0; i < mixed.x_scales.size(); i += 5) mixed.x_scales[i] = b;
            for (ExpertCase* c : {&weights, &activations, &mixed}) check_expert(backends, *c);
        }
    }
}

// Blocks with the largest possible integers of either sign, and all kinds of zero.
TEST_CASE("RoutedExpert: extreme digits") {
    auto backends = backends_present();
    for (int code : {0x00, 0x80, 0x01, 0x7e, 0xfe, 0x77, 0xf8})
        for (int pair : {0x00, 0x77, 0xff, 0x7f, 0x88})
            for (int32_t count : {1, 9}) {
                CAPTURE(code);
                CAPTURE(pair);
                ExpertCase c(544, 32, count, 6);
                c.x.assign(c.x.size(), uint8_t(code));
                for (auto& codes : c.codes) codes.assign(codes.size(), uint8_t(pair));
                check_expert(backends, c);
            }
}

TEST_CASE("RoutedExpert: NaN reaches the output, and only of the row that has it") {
    ExpertCase c(128, 64, 3, 7);
    c.x_scales[4 + 2] = 255;  // token 1
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> got = run_on(on, c);
        for (int32_t t = 0; t < 3; ++t) {
            int32_t nans = 0;
            for (int32_t d = 0; d < 128; ++d)
                nans += std::isnan(to_float(got[(2 * size_t(t) + 1) * 128 + d]));
            CHECK(nans == (c.rows[t] == 1 ? 128 : 0));
        }
    }
}

TEST_CASE("RoutedExpert: a row does not depend on its neighbours, and no row is no output") {
    ExpertCase c(288, 96, 21, 8);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> all = run_on(on, c);
        for (int32_t t : {0, 3, 16, 20}) {
            std::vector<bf16> one = run_on(on, c, t, 1);
            size_t changed = 0, wrong = 0, first = size_t(c.slots[t]) * 288;
            for (size_t d = 0; d < one.size(); ++d) changed += one[d].bits != untouched.bits;
            for (size_t d = first; d < first + 288; ++d) wrong += one[d].bits != all[d].bits;
            CHECK(wrong == 0);
            CHECK(changed == 288);
        }
        for (bf16 y : run_on(on, c, 0, 0)) REQUIRE(y.bits == untouched.bits);
    }
}

// A row that several experts share is cut into digits once. Conversely, only a row that is not in a
// tile may be shared.
TEST_CASE("RoutedExpertBatch: experts on rows of the same activations") {
    for (int32_t count : {1, 4, 12, 40}) {
        CAPTURE(count);
        ExpertCase many(288, 96, count, 11), one(288, 96, 1, 12);
        one.x.assign(many.x.begin(), many.x.begin() + 288);
        one.x_scales.assign(many.x_scales.begin(), many.x_scales.begin() + 288 / 32);
        std::vector<bf16> want_many = run_reference(many), want_one = run_reference(one);
        for (auto& on : backends_present()) {
            CAPTURE(on.name());
            Operands operands(on);
            std::vector<RoutedExpert> items;
            QuantRows x{operands.in(many.x), operands.in(many.x_scales)};
            for (ExpertCase* c : {&one, &many, &one}) {
                const uint8_t *w[3], *s[3];
                for (int m = 0; m < 3; ++m) {
                    w[m] = place(on, operands, c->codes[m]);
                    s[m] = place(on, operands, c->scales[m]);
                }
                items.push_back(c->op(operands.out<bf16>(c->out_size()), w, s));
                items.back().x = x;
                items.back().rows = operands.in(c->rows);
                items.back().slots = operands.in(c->slots);
                items.back().weights = operands.in(c->weights);
            }
            on->run(RoutedExpertBatch{items.data(), 3});
            CHECK(differences(operands.fetch(items[0].out, one.out_size()), want_one) == 0);
            CHECK(differences(operands.fetch(items[1].out, many.out_size()), want_many) == 0);
            CHECK(differences(operands.fetch(items[2].out, one.out_size()), want_one) == 0);
        }
    }
}

TEST_CASE("RoutedExpertBatch: the bits of its experts one by one") {
    for (auto [rows_a, rows_b] : {std::pair{3, 5}, {1, 1}, {20, 1}, {70, 33}}) {
        CAPTURE(rows_a);
        ExpertCase a(96, 64, rows_a, 9), b(96, 64, rows_b, 10);
        std::vector<bf16> want_a = run_reference(a), want_b = run_reference(b);
        for (auto& on : backends_present()) {
            CAPTURE(on.name());
            Operands operands(on);
            std::vector<RoutedExpert> items;
            for (ExpertCase* c : {&a, &b}) {
                const uint8_t *w[3], *s[3];
                for (int m = 0; m < 3; ++m) {
                    w[m] = place(on, operands, c->codes[m]);
                    s[m] = place(on, operands, c->scales[m]);
                }
                items.push_back(c->op(operands.out<bf16>(c->out_size()), w, s));
                items.back().x = {operands.in(c->x), operands.in(c->x_scales)};
                items.back().rows = operands.in(c->rows);
                items.back().slots = operands.in(c->slots);
                items.back().weights = operands.in(c->weights);
            }
            on->run(RoutedExpertBatch{items.data(), 2});
            CHECK(differences(operands.fetch(items[0].out, a.out_size()), want_a) == 0);
            CHECK(differences(operands.fetch(items[1].out, b.out_size()), want_b) == 0);
        }
    }
}

namespace {

// An expert whose g of row 0 adds terms in chosen blocks, whose u is 1 and whose w2 passes the
// product on.
struct Term {
    int block;
    float value;  // 1, 2^30 or -2^30
};

ExpertCase case_of_terms(std::initializer_list<Term> terms) {
    ExpertCase c(32 * 24, 32, 1, 12);
    for (auto& codes : c.codes) codes.assign(codes.size(), 0);
    for (auto& scales : c.scales) scales.assign(scales.size(), 127);
    c.x.assign(c.x.size(), 0);
    for (int b = 0; b < 24; ++b) c.x[32 * b] = 0x38;  // 1.0
    c.x_scales.assign(c.x_scales.size(), 127);
    for (Term t : terms) {
        c.codes[0][1 + 16 * t.block] = t.value < 0 ? 0x0a : 0x02;  // -1.0, 1.0
        if (t.value != 1) c.scales[0][1 + t.block] = 127 + 30;
    }
    c.codes[2][1] = 0x02;
    c.codes[1][1] = 0x02;
    c.weights[0] = 1.0f;
    return c;
}

// The part of a that ActQuant keeps.
float quantised(float a) {
    bf16 x[32] = {to_bf16(a)};
    uint8_t codes[32], scale;
    reference::run(ActQuant{{codes, &scale}, x, 1, 32});
    return e4m3_to_float(codes[0]) * e8m0_to_float(scale);
}

}  // namespace

// 2^30 swallows a 1 that is added to it, so the result shows which terms were added first.
TEST_CASE("RoutedExpert: eight lanes of blocks, then the tree of 4, 2, 1") {
    const float big = 1073741824.0f;
    const std::pair<ExpertCase, float> cases[] = {
        {case_of_terms({{0, big}, {4, 1}, {8, -big}}), 1.0f},
        {case_of_terms({{0, big}, {1, 1}, {8, -big}}), 1.0f},
        {case_of_terms({{0, big}, {8, 1}, {16, -big}}), 0.0f},
        {case_of_terms({{0, big}, {1, 1}, {4, -big}}), 1.0f},
        {case_of_terms({{0, big}, {1, 1}, {2, -big}}), 1.0f},
        {case_of_terms({{0, big}, {4, 1}, {2, -big}}), 0.0f},
        {case_of_terms({{0, big}, {2, 1}, {1, -big}}), 0.0f},
    };
    for (auto& on : backends_present())
        for (auto& [c, g] : cases) {
            CAPTURE(on.name());
            CHECK(to_float(run_on(on, c)[c.dim]) == quantised(silu_f32(g)));
        }
}

// The first 32 codes of w1 of the model's first expert, scale byte 0x78 (deepseek-v41.md section
// 11). With x = 1 in one column, u = 1 and w2 = 1, the output is silu of one weight.
TEST_CASE("RoutedExpert: FP4 as published, low nibble first, sign in bit 3") {
    const uint8_t real[16] = {0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa,
                              0xcc, 0x82, 0x25, 0x6f, 0xfa, 0x05, 0x45, 0x44};
    const float published[16] = {0,           -0.0078125f, 0,           -0.0078125f,
                                 -0.015625f,  -0.03125f,   -0.0078125f, 0.015625f,
                                 -0.0234375f, -0.0078125f, -0.046875f,  -0.0078125f,
                                 0.0078125f,  0.015625f,   -0.0078125f, -0.0078125f};
    for (auto& on : backends_present())
        for (int k = 0; k < 16; ++k) {
            CAPTURE(on.name());
            CAPTURE(k);
            ExpertCase c(32, 32, 1, 11);
            for (auto& codes : c.codes) codes.assign(codes.size(), 0);
            for (auto& scales : c.scales) scales.assign(scales.size(), 127);
            std::memcpy(c.codes[0].data() + 1, real, 16);
            c.scales[0][1] = 0x78;
            c.codes[2][1 + k / 2] = k % 2 ? 0x20 : 0x02;  // 1.0 in column k of row 0
            c.codes[1][1] = 0x02;                         // 1.0 in column 0 of row 0
            c.x.assign(32, 0);
            c.x[k] = 0x38;  // 1.0
            c.x_scales[0] = 127;
            c.weights[0] = 1.0f;
            CHECK(to_float(run_on(on, c)[32]) == quantised(silu_f32(published[k])));
        }
}

namespace {

struct Quantised {
    std::vector<uint8_t> codes, scales;
};

Quantised swiglu_on(const TestBackend& on, const std::vector<bf16>& gate,
                    const std::vector<bf16>& up, const std::vector<float>& weights, int32_t n,
                    int32_t group = 32) {
    Operands operands(on);
    size_t count = gate.size();
    Swiglu op{{operands.out<uint8_t>(count), operands.out<uint8_t>(count / 32)},
              operands.in(gate),
              operands.in(up),
              operands.in(weights),
              n,
              int32_t(count / n),
              10.0f,
              group};
    on->run(op);
    return {operands.fetch(op.out.codes, count), operands.fetch(op.out.scales, count / 32)};
}

}  // namespace

TEST_CASE("Swiglu: the bits of the reference, with and without weights, NaN through the clamps") {
    Random random(12);
    for (int32_t cols : {32, 96, 2304})
        for (int32_t n : {1, 5}) {
            CAPTURE(cols);
            size_t count = size_t(n) * cols;
            std::vector<bf16> gate = random.activations(count), up = random.activations(count);
            gate[3] = to_bf16(INFINITY);
            gate[5] = to_bf16(-200.0f);
            gate[6] = to_bf16(-INFINITY);  // -inf / (1 + inf)
            up[7] = to_bf16(-INFINITY);
            if (n == 5) {
                gate[cols + 31] = to_bf16(NAN);
                up[count - 1] = to_bf16(NAN);
            }
            for (bool weighted : {false, true}) {
                std::vector<float> weights = random.floats(weighted ? n : 0, 0.1f, 1.5f);
                Quantised want{std::vector<uint8_t>(count), std::vector<uint8_t>(count / 32)};
                reference::run(Swiglu{{want.codes.data(), want.scales.data()},
                                      gate.data(),
                                      up.data(),
                                      weighted ? weights.data() : nullptr,
                                      n,
                                      cols,
                                      10.0f});
                CHECK(want.scales[0] == 255);
                if (n == 5) CHECK(want.scales[cols / 32] == 255);
                for (auto& on : backends_present()) {
                    CAPTURE(on.name());
                    Quantised got = swiglu_on(on, gate, up, weights, n);
                    CHECK(differences(got.codes, want.codes) == 0);
                    CHECK(differences(got.scales, want.scales) == 0);
                }
            }
        }
}

TEST_CASE("Swiglu: groups of 128 have one scale, or are NaN as a whole") {
    Random random(15);
    for (int32_t cols : {128, 384, 2048})
        for (int32_t n : {1, 3}) {
            CAPTURE(cols);
            size_t count = size_t(n) * cols;
            std::vector<bf16> gate = random.activations(count), up = random.activations(count);
            for (size_t i = 0; i < count; ++i)  // one block in four is small
                if (i / 32 % 4 == 2) up[i] = to_bf16(to_float(up[i]) * 0x1p-16f);
            if (n == 3) gate[cols + 70] = to_bf16(NAN);
            std::vector<float> weights = random.floats(n, 0.1f, 1.5f);
            Quantised want{std::vector<uint8_t>(count), std::vector<uint8_t>(count / 32)};
            reference::run(Swiglu{{want.codes.data(), want.scales.data()},
                                  gate.data(),
                                  up.data(),
                                  weights.data(),
                                  n,
                                  cols,
                                  10.0f,
                                  128});
            for (size_t b = 0; b < count / 32; ++b) {
                CHECK(want.scales[b] == want.scales[b / 4 * 4]);
                CHECK((want.scales[b] == 255) == (n == 3 && int32_t(b / 4) == cols / 128));
            }
            for (auto& on : backends_present()) {
                CAPTURE(on.name());
                Quantised got = swiglu_on(on, gate, up, weights, n, 128);
                CHECK(differences(got.codes, want.codes) == 0);
                CHECK(differences(got.scales, want.scales) == 0);
            }
        }
}

TEST_CASE("Combine: the partials in order, then the shared expert, bit by bit") {
    Random random(13);
    for (int32_t dim : {1, 16, 33, 5120})
        for (int32_t k : {1, 6}) {
            CAPTURE(dim);
            int32_t n = 3;
            std::vector<bf16> partial = random.activations(size_t(n) * k * dim);
            std::vector<bf16> shared = random.activations(size_t(n) * dim);
            std::vector<bf16> want(shared.size());
            reference::run(Combine{want.data(), partial.data(), shared.data(), n, k, dim});
            for (auto& on : backends_present()) {
                CAPTURE(on.name());
                Operands operands(on);
                Combine op{operands.out<bf16>(want.size()),
                           operands.in(partial),
                           operands.in(shared),
                           n,
                           k,
                           dim};
                on->run(op);
                CHECK(differences(operands.fetch(op.y, want.size()), want) == 0);
            }
        }
}
