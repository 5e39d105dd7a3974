#include <doctest/doctest.h>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Mixes {
    std::vector<float> pre, post, comb;
};

struct MixCase {
    int32_t n, hc, dim, iterations;
    std::vector<bf16> h;
    std::vector<float> fn, base, scale;
    bool pre_only = false;

    size_t heads() const { return size_t(n) * hc; }
    HyperMix op() const {
        HyperMix op{};
        op.n = n;
        op.hc = hc;
        op.dim = dim;
        op.iterations = iterations;
        op.eps = 1e-20f;
        op.hc_eps = 1e-6f;
        op.fn = {nullptr, pre_only ? hc : (2 + hc) * hc, hc * dim};
        return op;
    }
};

MixCase random_case(Random& random, int32_t n, int32_t hc, int32_t dim) {
    MixCase c{n, hc, dim, 20, random.activations(size_t(n) * hc * dim), {}, {}, {}};
    int32_t mixes = (2 + hc) * hc;
    float size = 2 / std::sqrt(float(hc * dim));
    c.fn = random.floats(size_t(mixes) * hc * dim, -size, size);
    c.base = random.floats(mixes, -1, 1);
    c.scale = random.floats(3, 0.2f, 2);
    return c;
}

Mixes run_on(const TestBackend& on, const MixCase& c) {
    Operands operands(on);
    HyperMix op = c.op();
    op.pre = operands.out<float>(c.heads());
    if (!c.pre_only) {
        op.post = operands.out<float>(c.heads());
        op.comb = operands.out<float>(c.heads() * c.hc);
    }
    op.h = operands.in(c.h);
    op.fn.data = operands.in(c.fn);
    op.base = operands.in(c.base);
    op.scale = operands.in(c.scale);
    on->run(op);
    if (c.pre_only) return {operands.fetch(op.pre, c.heads()), {}, {}};
    return {operands.fetch(op.pre, c.heads()), operands.fetch(op.post, c.heads()),
            operands.fetch(op.comb, c.heads() * c.hc)};
}

Mixes run_reference(const MixCase& c) {
    Mixes m{std::vector<float>(c.heads()), std::vector<float>(c.heads()),
            std::vector<float>(c.heads() * c.hc)};
    HyperMix op = c.op();
    op.pre = m.pre.data();
    op.post = m.post.data();
    op.comb = m.comb.data();
    op.h = c.h.data();
    op.fn.data = c.fn.data();
    op.base = c.base.data();
    op.scale = c.scale.data();
    reference::run(op);
    return m;
}

// The token of the vector in deepseek-v41.md section 11: u = (1, 0, 0, ...), so that r = sqrt(4
// dim) and, with fn's first column sin(i) / r, m[i] = sin(i).
MixCase described() {
    MixCase c{1,
              4,
              16,
              20,
              std::vector<bf16>(64, to_bf16(0)),
              std::vector<float>(24 * 64),
              std::vector<float>(24),
              {1, 1, 2}};
    c.h[0] = to_bf16(1);
    for (int i = 0; i < 24; ++i) c.fn[i * 64] = float(std::sin(double(i)) / 8);
    return c;
}

void check_near(const std::vector<float>& got, const std::vector<double>& want) {
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - want[i]) < 1.5e-6);
}

// Row `row` of the mixes before the sigmoids and the softmax, by the contract in fp32: dot of 16,
// then * r.
float literal_mix(const MixCase& c, int32_t token, int32_t row) {
    int32_t width = c.hc * c.dim;
    float dot[16] = {}, square[16] = {};
    for (int32_t k = 0; k < width; ++k) {
        float u = to_float(c.h[size_t(token) * width + k]);
        dot[k % 16] = dot[k % 16] + c.fn[size_t(row) * width + k] * u;
        square[k % 16] = square[k % 16] + u * u;
    }
    for (int step = 8; step > 0; step /= 2)
        for (int i = 0; i < step; ++i) {
            dot[i] = dot[i] + dot[i + step];
            square[i] = square[i] + square[i + step];
        }
    return dot[0] * (1.0f / std::sqrt(square[0] / float(width) + 1e-20f));
}

}  // namespace

TEST_CASE("hyper: the mixes of the specification") {
    auto check = [](const Mixes& m) {
        check_near(m.pre, {0.500001, 0.698776, 0.712857, 0.535223});
        check_near(m.post, {0.638682, 0.554187, 0.861194, 1.317166});
        check_near(m.comb, {0.562354, 0.327949, 0.082634, 0.027061, 0.009254, 0.116016, 0.619195,
                            0.255534, 0.112315, 0.054030, 0.140354, 0.693301, 0.316076, 0.502004,
                            0.157815, 0.024103});
    };
    check(run_reference(described()));
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        check(run_on(on, described()));
    }
}

TEST_CASE("hyper: mixes near the reference, pre on the CPU the contract's bits") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Random random(21);
        for (int32_t n : {1, 2, 3, 9, 17, 65})
            for (auto [hc, dim] : {std::pair{4, 16}, {4, 96}, {4, 640}, {2, 50}, {3, 33}}) {
                MixCase c = random_case(random, n, hc, dim);
                Mixes got = run_on(on, c), want = run_reference(c);
                REQUIRE(nmse(got.pre, want.pre) <= 1e-9);
                REQUIRE(nmse(got.post, want.post) <= 1e-9);
                REQUIRE(nmse(got.comb, want.comb) <= 1e-9);
                for (int32_t i = 0; on.cpu && i < n; ++i)
                    for (int32_t j = 0; j < hc; ++j) {
                        float m = literal_mix(c, i, j) * c.scale[0] + c.base[j];
                        REQUIRE(got.pre[size_t(i) * hc + j] == sigmoid_f32(m) + 1e-6f);
                    }
            }
    }
}

TEST_CASE("hyper: pre alone, from its own rows") {
    Random random(27);
    for (int32_t n : {1, 2, 9, 65})
        for (auto [hc, dim] : {std::pair{4, 96}, {4, 640}, {3, 33}}) {
            MixCase all = random_case(random, n, hc, dim), alone = all;
            alone.pre_only = true;
            alone.fn.resize(size_t(hc) * hc * dim);
            alone.base.resize(hc);
            alone.scale.resize(1);
            std::vector<float> want = run_reference(all).pre;
            for (auto& on : backends_present()) {
                CAPTURE(on.name());
                std::vector<float> got = run_on(on, alone).pre;
                REQUIRE(nmse(got, want) <= 1e-9);
                if (on.cpu) REQUIRE(differences(got, run_on(on, all).pre) == 0);
            }
        }
}

// The streams are rounded to bf16 here, hence the tolerance.
TEST_CASE("hyper: the end of a model as the specification has it, in one step") {
    std::vector<bf16> h;
    for (float u : {0.5f, -0.2f, 0.1f, 0.7f, 1.5f, 0.3f, -0.4f, 0.9f}) h.push_back(to_bf16(u));
    std::vector<float> fn;
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 8; ++b) fn.push_back(0.1f * float((a + 1) * (b + 1)) / 8);
    MixCase c{1, 4, 2, 1, h, fn, {0.1f, -0.1f, 0.2f, 0}, {0.7f}, true};
    const float want[] = {0.576047f, 0.577648f, 0.694170f, 0.695561f};
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        auto pre = run_on(on, c).pre;
        for (int j = 0; j < 4; ++j) CHECK(std::fabs(pre[j] - want[j]) < 3e-4f);
        Operands operands(on);
        bf16* x = operands.out<bf16>(2);
        on->run(HyperCollapse{x, operands.in(pre), operands.in(h), 1, 4, 2});
        auto end = operands.fetch(x, 2);
        CHECK(to_float(end[0]) == doctest::Approx(1.108818).epsilon(0.005));
        CHECK(to_float(end[1]) == doctest::Approx(1.123400).epsilon(0.005));
    }
}

namespace {

struct Step {
    std::vector<bf16> x, y, h;
    std::vector<float> pre;
    std::vector<uint8_t> codes, scales;
};

// Expands the streams (unless only pre is wanted), then collapses them with the step's own pre.
// `parts`: as the sum of its parts.
Step own_step(const TestBackend& on, const MixCase& c, const std::vector<bf16>& branch,
              const std::vector<float>& coefficients, bool parts) {
    Operands operands(on);
    size_t values = size_t(c.n) * c.dim;
    HyperStep op{};
    bf16* streams = operands.in(c.h);
    float* before = operands.in(coefficients);
    op.mix = c.op();
    if (!c.pre_only) {
        op.expand = {streams, operands.in(branch), before, before, c.n, c.hc, c.dim};
        streams = operands.out<bf16>(c.h.size());
        op.mix.post = operands.out<float>(c.heads());
        op.mix.comb = operands.out<float>(c.heads() * c.hc);
    }
    op.mix.pre = operands.out<float>(c.heads());
    op.mix.h = streams;
    op.mix.fn.data = operands.in(c.fn);
    op.mix.base = operands.in(c.base);
    op.mix.scale = operands.in(c.scale);
    op.collapse = {operands.out<bf16>(values), op.mix.pre, streams, c.n, c.hc, c.dim};
    std::vector<bf16> ones(c.dim, to_bf16(1.0f));
    op.norm = {operands.out<bf16>(values), op.collapse.x, operands.in(ones), c.n, c.dim, 1e-6f};
    op.quant = {{operands.out<uint8_t>(values), operands.out<uint8_t>(values / 32)},
                op.norm.y,
                c.n,
                c.dim,
                128};
    if (parts)
        on->Backend::run(op);
    else
        on->run(op);
    return {operands.fetch(op.collapse.x, values),
            operands.fetch(op.norm.y, values),
            operands.fetch(streams, c.h.size()),
            operands.fetch(op.mix.pre, c.heads()),
            operands.fetch(op.quant.out.codes, values),
            operands.fetch(op.quant.out.scales, values / 32)};
}

}  // namespace

TEST_CASE("hyper: a step that collapses with its own coefficients equals its parts") {
    Random random(28);
    for (int32_t n : {1, 3, 17})
        for (int32_t dim : {128, 640, 4096})
            for (bool pre_only : {false, true}) {
                CAPTURE(n);
                CAPTURE(dim);
                CAPTURE(pre_only);
                MixCase c = random_case(random, n, 4, dim);
                c.pre_only = pre_only;
                auto branch = random.activations(size_t(n) * dim);
                auto coefficients = random.floats(size_t(n) * 16, 0, 1);
                for (auto& on : backends_present()) {
                    CAPTURE(on.name());
                    Step whole = own_step(on, c, branch, coefficients, false);
                    Step parts = own_step(on, c, branch, coefficients, true);
                    CHECK(differences(whole.h, parts.h) == 0);
                    CHECK(differences(whole.pre, parts.pre) == 0);
                    CHECK(differences(whole.x, parts.x) == 0);
                    CHECK(differences(whole.y, parts.y) == 0);
                    CHECK(whole.codes == parts.codes);
                    CHECK(whole.scales == parts.scales);
                }
            }
}

TEST_CASE("hyper: CPU mixes are the same bits on every instruction set and thread count") {
    Random random(22);
    for (int32_t n : {1, 6, 33}) {
        MixCase c = random_case(random, n, 4, 512);
        Mixes first;
        for (auto& on : backends_present()) {
            if (!on.cpu) continue;
            CAPTURE(on.name());
            Mixes m = run_on(on, c);
            if (first.pre.empty()) first = m;
            CHECK(differences(m.pre, first.pre) == 0);
            CHECK(differences(m.post, first.post) == 0);
            CHECK(differences(m.comb, first.comb) == 0);
        }
    }
}

TEST_CASE("hyper: a token's mixes do not depend on its neighbours") {
    Random random(23);
    MixCase all = random_case(random, 11, 4, 192);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Mixes together = run_on(on, all);
        for (int32_t i : {0, 5, 10}) {
            MixCase one = all;
            one.n = 1;
            one.h.assign(all.h.begin() + i * 768, all.h.begin() + (i + 1) * 768);
            Mixes alone = run_on(on, one);
            for (int j = 0; j < 4; ++j) CHECK(alone.pre[j] == together.pre[i * 4 + j]);
            for (int j = 0; j < 16; ++j) CHECK(alone.comb[j] == together.comb[i * 16 + j]);
        }
    }
}

TEST_CASE("hyper: NaN in one token is NaN in its mixes only") {
    Random random(24);
    MixCase c = random_case(random, 3, 4, 96);
    c.h[384 + 77] = bf16{0x7fc0};
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Mixes m = run_on(on, c);
        for (int j = 0; j < 12; ++j) CHECK(std::isnan(m.pre[j]) == (j / 4 == 1));
        for (int j = 0; j < 48; ++j) CHECK(std::isnan(m.comb[j]) == (j / 16 == 1));
    }
}

TEST_CASE("hyper: collapse and expand near the reference, equal on all CPUs") {
    Random random(25);
    for (int32_t n : {1, 2, 3, 17, 65})
        for (auto [hc, dim] :
             {std::pair{4, 16}, {4, 96}, {4, 1000}, {1, 32}, {2, 50}, {3, 7}, {8, 192}}) {
            auto h = random.activations(size_t(n) * hc * dim);
            auto x = random.activations(size_t(n) * dim);
            auto pre = random.floats(size_t(n) * hc, 0, 1);
            auto comb = random.floats(size_t(n) * hc * hc, 0, 1);
            std::vector<bf16> want(x.size()), grown = h;
            reference::run(HyperCollapse{want.data(), pre.data(), h.data(), n, hc, dim});
            reference::run(
                HyperExpand{grown.data(), x.data(), pre.data(), comb.data(), n, hc, dim});
            std::vector<bf16> first_x, first_h;
            for (auto& on : backends_present()) {
                CAPTURE(on.name());
                Operands operands(on);
                bf16 *to = operands.out<bf16>(x.size()), *streams = operands.in(h);
                float* p = operands.in(pre);
                on->run(HyperCollapse{to, p, streams, n, hc, dim});
                on->run(HyperExpand{streams, operands.in(x), p, operands.in(comb), n, hc, dim});
                auto got_x = operands.fetch(to, x.size());
                auto got_h = operands.fetch(streams, h.size());
                REQUIRE(nmse(got_x, want) <= 1e-6);
                REQUIRE(nmse(got_h, grown) <= 1e-6);
                if (first_x.empty()) first_x = got_x, first_h = got_h;
                REQUIRE((!on.cpu || differences(got_x, first_x) == 0));
                REQUIRE((!on.cpu || differences(got_h, first_h) == 0));
            }
        }
}

TEST_CASE("hyper: one-hot pre picks a stream, identity comb with post 0 keeps the streams") {
    Random random(26);
    auto h = random.activations(3 * 4 * 64);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Operands operands(on);
        std::vector<float> pre(12), post(12), comb(48);
        for (int i = 0; i < 3; ++i) {
            pre[i * 4 + i] = 1;
            for (int j = 0; j < 4; ++j) comb[i * 16 + j * 4 + (j + 1) % 4] = 1;
        }
        bf16 *x = operands.out<bf16>(3 * 64), *streams = operands.in(h);
        on->run(HyperCollapse{x, operands.in(pre), streams, 3, 4, 64});
        auto got = operands.fetch(x, 3 * 64);
        for (int i = 0; i < 3; ++i)
            for (int d = 0; d < 64; ++d)
                CHECK(to_float(got[i * 64 + d]) == to_float(h[(i * 4 + i) * 64 + d]));
        on->run(HyperExpand{streams, x, operands.in(post), operands.in(comb), 3, 4, 64});
        auto moved = operands.fetch(streams, h.size());
        for (int i = 0; i < 3; ++i)  // comb[j][j + 1] = 1: stream j went to j + 1
            for (int j = 0; j < 4; ++j)
                for (int d = 0; d < 64; ++d)
                    CHECK(to_float(moved[(i * 4 + (j + 1) % 4) * 64 + d]) ==
                          to_float(h[(i * 4 + j) * 64 + d]));
    }
}
