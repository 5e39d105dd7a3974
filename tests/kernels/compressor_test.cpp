#include <doctest/doctest.h>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Pool {
    int32_t dim, ratio, open_rows;
    bool overlap = false, previous = false;
    int32_t width;
    std::vector<float> place, open_kv, open_gate;
    std::vector<bf16> latent;

    Pool(Random& random, int32_t dim, int32_t ratio, int32_t open_rows)
        : dim(dim),
          ratio(ratio),
          open_rows(open_rows),
          width(dim),
          open_kv(random.floats(size_t(ratio) * dim, -3, 3)),
          open_gate(random.floats(size_t(ratio) * dim, -3, 3)) {}

    // Groups that overlap, with gates by place. Without a previous group its rows are NaN.
    static Pool overlapping(Random& random, int32_t dim, int32_t ratio, int32_t open_rows,
                            bool previous) {
        Pool pool(random, 4 * dim, ratio, open_rows);  // open_*: 2 * ratio rows of 2 * dim
        pool.dim = dim;
        pool.width = 2 * dim;
        pool.overlap = true;
        pool.previous = previous;
        pool.place = random.floats(size_t(ratio) * 2 * dim, -1, 1);
        for (int32_t i = 0; !previous && i < ratio * 2 * dim; ++i)
            pool.open_kv[i] = pool.open_gate[i] = NAN;
        return pool;
    }

    int32_t groups(int32_t n) const { return (open_rows + n) / ratio; }
    int32_t left(int32_t n) const { return (open_rows + n) % ratio; }
};

// Pools n more tokens; latents are appended.
void feed(const TestBackend* on, Pool& pool, const std::vector<float>& kv,
          const std::vector<float>& gate) {
    int32_t n = int32_t(kv.size()) / pool.width;
    std::vector<bf16> latent(size_t(pool.groups(n)) * pool.dim);
    CompressPool op{latent.data(),         kv.data(), gate.data(), pool.open_kv.data(),
                    pool.open_gate.data(), n,         pool.dim,    pool.ratio,
                    pool.open_rows};
    op.place = pool.place.empty() ? nullptr : pool.place.data();
    op.overlap = pool.overlap;
    op.previous = pool.previous;
    if (!on) {
        reference::run(op);
    } else {
        Operands operands(*on);
        op.latent = operands.out<bf16>(latent.size());
        op.kv = operands.in(kv);
        op.gate = operands.in(gate);
        op.place = operands.in(pool.place);
        op.open_kv = operands.in(pool.open_kv);
        op.open_gate = operands.in(pool.open_gate);
        (*on)->run(op);
        if (!latent.empty()) latent = operands.fetch(op.latent, latent.size());
        pool.open_kv = operands.fetch(op.open_kv, pool.open_kv.size());
        pool.open_gate = operands.fetch(op.open_gate, pool.open_gate.size());
    }
    pool.latent.insert(pool.latent.end(), latent.begin(), latent.end());
    pool.previous = pool.overlap && (pool.previous || pool.groups(n) > 0);
    pool.open_rows = pool.left(n);
}

// The rows of the open groups that are in use.
std::vector<float> live(const Pool& pool, const std::vector<float>& open) {
    int32_t first = pool.overlap && !pool.previous ? pool.ratio : 0;
    int32_t end = pool.overlap ? pool.ratio + pool.open_rows : pool.open_rows;
    return {open.begin() + size_t(first) * pool.width, open.begin() + size_t(end) * pool.width};
}

// Every backend against the reference, from the same start.
void check(const Pool& start, const std::vector<float>& kv, const std::vector<float>& gate) {
    Pool want = start, cpu = start;
    feed(nullptr, want, kv, gate);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Pool got = start;
        feed(&on, got, kv, gate);
        CHECK(nmse(got.latent, want.latent) <= 1e-6);
        CHECK(differences(live(got, got.open_kv), live(want, want.open_kv)) == 0);
        CHECK(differences(live(got, got.open_gate), live(want, want.open_gate)) == 0);
        if (!on.cpu) continue;
        if (cpu.latent.empty()) cpu = got;
        CHECK(differences(got.latent, cpu.latent) == 0);
    }
}

// The latents and what stays open do not depend on how the tokens are split.
void check_splits(const TestBackend& on, const Pool& start, const std::vector<float>& kv,
                  const std::vector<float>& gate) {
    Pool whole = start;
    feed(&on, whole, kv, gate);
    size_t row = size_t(start.width), n = kv.size() / row;
    for (size_t step : {1, 2, 3, 5, 7}) {
        CAPTURE(step);
        Pool parts = start;
        for (size_t t = 0; t < n; t += step) {
            size_t first = t * row, last = std::min(n, t + step) * row;
            feed(&on, parts, {kv.begin() + first, kv.begin() + last},
                 {gate.begin() + first, gate.begin() + last});
        }
        CHECK(parts.open_rows == whole.open_rows);
        CHECK(differences(parts.latent, whole.latent) == 0);
        CHECK(differences(live(parts, parts.open_kv), live(whole, whole.open_kv)) == 0);
        CHECK(differences(live(parts, parts.open_gate), live(whole, whole.open_gate)) == 0);
    }
}

}  // namespace

TEST_CASE("CompressPool: close to the reference, with every count of open rows") {
    Random random(1);
    for (int32_t dim : {1, 16, 40, 512})
        for (int32_t ratio : {1, 2, 3})
            for (int32_t open_rows = 0; open_rows < ratio; ++open_rows)
                for (int32_t n : {1, 2, 3, 8, 33}) {
                    CAPTURE(dim);
                    CAPTURE(ratio);
                    CAPTURE(open_rows);
                    CAPTURE(n);
                    check(Pool(random, dim, ratio, open_rows),
                          random.floats(size_t(n) * dim, -3, 3),
                          random.floats(size_t(n) * dim, -30, 30));
                }
}

TEST_CASE("CompressPool: a gate by place in the group, and groups that overlap") {
    Random random(4);
    for (auto [dim, ratio] :
         {std::pair{1, 4}, {16, 1}, {24, 3}, {40, 4}, {512, 4}, {33, 128}, {512, 128}})
        for (bool overlap : {false, true})
            for (int32_t open_rows : {0, 1, ratio / 2, ratio - 1})
                for (int32_t n : {1, 3, 4, 33, 2 * ratio + 1}) {
                    if (open_rows >= ratio || int64_t(n) * dim > 50000) continue;
                    CAPTURE(dim);
                    CAPTURE(ratio);
                    CAPTURE(overlap);
                    CAPTURE(open_rows);
                    CAPTURE(n);
                    Pool start(random, dim, ratio, open_rows);
                    start.place = random.floats(size_t(ratio) * dim, -1, 1);
                    if (overlap)
                        start = Pool::overlapping(random, dim, ratio, open_rows, n % 2 == 1);
                    size_t values = size_t(n) * start.width;
                    check(start, random.floats(values, -3, 3), random.floats(values, -30, 30));
                }
}

TEST_CASE("CompressPool: the overlapping groups of the specification") {
    std::vector<float> kv, gate;
    for (int t = 0; t < 8; ++t) {
        kv.insert(kv.end(), {0.1f * float(t + 1), -0.2f * float(t + 1)});
        gate.insert(gate.end(), {float(std::sin(t)), float(std::cos(t))});
    }
    Random random(5);
    Pool start = Pool::overlapping(random, 1, 4, 0, false);
    start.place = {0.1f, 0.2f, 0.3f, -0.1f, 0, 0.5f, -0.4f, 0.25f};
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Pool pool = start;
        feed(&on, pool, kv, gate);
        REQUIRE(pool.latent.size() == 2);
        CHECK(pool.latent[0].bits == to_bf16(-0.360285f).bits);
        CHECK(pool.latent[1].bits == to_bf16(-0.652825f).bits);
        check_splits(on, start, kv, gate);
    }
}

TEST_CASE("CompressPool: any split of the tokens gives the same latents") {
    Random random(2);
    const int32_t dim = 48, n = 23;
    std::vector<float> kv = random.floats(size_t(n) * dim, -3, 3);
    std::vector<float> gate = random.floats(size_t(n) * dim, -3, 3);
    for (auto& on : backends_present())
        for (int32_t ratio : {1, 2, 3}) {
            CAPTURE(on.name());
            CAPTURE(ratio);
            check_splits(on, Pool(random, dim, ratio, 0), kv, gate);
        }
    for (auto& on : backends_present())
        for (int32_t ratio : {1, 2, 4, 5}) {
            CAPTURE(on.name());
            CAPTURE(ratio);
            for (bool previous : {false, true}) {
                Pool start = Pool::overlapping(random, dim / 2, ratio, ratio / 3, previous);
                check_splits(on, start, kv, gate);
            }
        }
}

TEST_CASE("CompressPool: each half of an overlapping row reaches its own latent only") {
    Random random(6);
    Pool start = Pool::overlapping(random, 20, 4, 0, false);
    std::vector<float> kv = random.floats(12 * 40, -3, 3), gate = random.floats(12 * 40, -3, 3);
    kv[2 * 40 + 7] = NAN;          // token 2, first half: latent 1
    kv[1 * 40 + 20 + 9] = NAN;     // token 1, second half: latent 0
    gate[6 * 40 + 11] = NAN;       // token 6, first half: latent 2
    gate[11 * 40 + 20 + 3] = NAN;  // token 11, second half: latent 2
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Pool got = start;
        feed(&on, got, kv, gate);
        for (size_t d = 0; d < 60; ++d)
            CHECK(std::isnan(to_float(got.latent[d])) ==
                  (d == 20 + 7 || d == 9 || d == 40 + 11 || d == 40 + 3));
    }
}

TEST_CASE("CompressPool: NaN stays in its feature and group, equal gates share evenly") {
    Random random(3);
    Pool start(random, 32, 2, 0);
    std::vector<float> kv = random.floats(4 * 32, -3, 3), gate(4 * 32, 7.0f);
    gate[1 * 32 + 5] = NAN;       // group 0, feature 5
    kv[2 * 32 + 6] = NAN;         // group 1, feature 6
    gate[2 * 32 + 9] = INFINITY;  // inf - inf
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Pool got = start;
        feed(&on, got, kv, gate);
        for (size_t d = 0; d < 64; ++d) {
            bool nan = d == 5 || d == 32 + 6 || d == 32 + 9;
            CHECK(std::isnan(to_float(got.latent[d])) == nan);
            float even =
                round_bf16(0.5f * kv[d / 32 * 64 + d % 32] + 0.5f * kv[d / 32 * 64 + 32 + d % 32]);
            if (!nan) CHECK(to_float(got.latent[d]) == even);
        }
    }
}
