#include <doctest/doctest.h>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Small integers, so that every sum is exact in any order and there are many ties.
std::vector<bf16> small_integers(Random& random, size_t count) {
    std::vector<bf16> v(count);
    for (bf16& x : v) x = to_bf16(float(random.below(5) - 2));
    return v;
}

struct IndexCase {
    int32_t n, heads, dim, k, position, ratio, rows, block, keep;
    Candidates mode = Candidates::none;
    std::vector<bf16> q, w, keys;
    std::vector<uint8_t> candidates;

    IndexCase(int32_t n, int32_t rows, int32_t position, int32_t ratio, int32_t k, uint64_t seed,
              int32_t heads = 3, int32_t dim = 24)
        : n(n),
          heads(heads),
          dim(dim),
          k(k),
          position(position),
          ratio(ratio),
          rows(rows),
          block(8),
          keep(3) {
        Random random(seed);
        q = small_integers(random, size_t(n) * heads * dim);
        w = small_integers(random, size_t(n) * heads);
        keys = small_integers(random, size_t(rows) * dim);
        for (int32_t i = 0; i < n * blocks(); ++i)
            candidates.push_back(random.below(2) == 0 ? 1 : 0);
    }
    int32_t blocks() const { return (rows + block - 1) / block + 1; }  // one more than needed
    IndexTopk op() const {
        IndexTopk op{};
        op.n = n;
        op.heads = heads;
        op.dim = dim;
        op.k = k;
        op.position = position;
        op.ratio = ratio;
        op.rows = rows;
        op.block = block;
        op.keep = keep;
        op.blocks_max = blocks();
        op.mode = mode;
        return op;
    }
};

struct Selection {
    std::vector<int32_t> topk;
    std::vector<uint8_t> candidates;
    std::vector<float> scores;  // if asked for
};

Selection run_on(const TestBackend& on, const IndexCase& c, bool scores = false) {
    Operands operands(on);
    IndexTopk op = c.op();
    size_t chosen = size_t(c.n) * c.k, marks = size_t(c.n) * c.blocks();
    op.topk = operands.out<int32_t>(chosen);
    if (c.mode == Candidates::publish) op.candidates = operands.out<uint8_t>(marks);
    if (c.mode == Candidates::restrict) op.candidates = operands.in(c.candidates);
    op.q = operands.in(c.q);
    op.w = operands.in(c.w);
    op.keys = operands.in(c.keys);
    op.scratch = operands.out<float>(index_scratch_floats(c.n, c.rows));
    const size_t scored = size_t(c.n) * c.rows;
    if (scores) op.scores = operands.out<float>(scored);
    on->run(op);
    Selection got{operands.fetch(op.topk, chosen), {}, {}};
    if (scores) got.scores = operands.fetch(op.scores, scored);
    if (op.candidates) got.candidates = operands.fetch(op.candidates, marks);
    return got;
}

Selection run_reference(const IndexCase& c) {
    Selection want{std::vector<int32_t>(size_t(c.n) * c.k), c.candidates,
                   std::vector<float>(size_t(c.n) * c.rows)};
    IndexTopk op = c.op();
    op.scores = want.scores.data();
    op.topk = want.topk.data();
    op.candidates = c.mode == Candidates::none ? nullptr : want.candidates.data();
    op.q = c.q.data();
    op.w = c.w.data();
    op.keys = c.keys.data();
    reference::run(op);
    if (c.mode == Candidates::none) want.candidates.clear();
    return want;
}

void check(const std::vector<TestBackend>& backends, const IndexCase& c) {
    CAPTURE(c.n);
    CAPTURE(c.rows);
    CAPTURE(c.position);
    CAPTURE(c.ratio);
    CAPTURE(c.k);
    CAPTURE(int(c.mode));
    Selection want = run_reference(c);
    for (auto& on : backends) {
        CAPTURE(on.name());
        Selection got = run_on(on, c);
        CHECK(differences(got.topk, want.topk) == 0);
        CHECK(differences(got.candidates, want.candidates) == 0);
    }
}

constexpr Candidates all_modes[] = {Candidates::none, Candidates::publish, Candidates::restrict};

}  // namespace

TEST_CASE("IndexTopk: the rows of the reference at every border") {
    for (Candidates mode : all_modes)
        for (int32_t ratio : {1, 2})
            for (int32_t rows : {1, 8, 9, 17, 63, 200}) {
                auto backends = backends_present();
                for (int32_t k : {1, 16}) {
                    int32_t last = rows * ratio;  // position whose visible rows end the cache
                    for (int32_t position : {0, last / 2, last - 1}) {
                        IndexCase c(3, rows, position, ratio, k, uint64_t(rows + k));
                        c.mode = mode;
                        check(backends, c);
                    }
                }
            }
}

TEST_CASE("IndexTopk: the rows of the reference at awkward heads and widths") {
    for (auto [heads, dim] : {std::pair{1, 8}, {4, 16}, {5, 40}, {32, 128}}) {
        CAPTURE(heads);
        CAPTURE(dim);
        check(backends_present(), IndexCase(4, 300, 290, 1, 20, 3, heads, dim));
    }
}

TEST_CASE("IndexTopk: more queries than one slice of the scratch") {
    for (Candidates mode : all_modes) {
        IndexCase many(150, 160, 30, 1, 9, 4);
        many.mode = mode;
        check(backends_present(), many);
    }
    IndexCase wide(61, 70000, 69938, 1, 40, 5, 1, 16);
    CHECK(index_scratch_floats(61, 70000) < 61u * 70000u);
    check(backends_present(), wide);
}

TEST_CASE("IndexTopk: scratch is bounded and grows with what it serves") {
    CHECK(index_scratch_floats(1, 0) >= 1);
    CHECK(index_scratch_floats(4096, 1 << 20) <= 4u << 20);
    CHECK(index_scratch_floats(1, 1 << 24) == 1u << 24);
    size_t before = 0;
    for (int32_t rows = 1; rows < 200000; rows += 777) {
        size_t now = index_scratch_floats(64, rows);
        CHECK(now >= before);
        CHECK(now >= index_scratch_floats(3, rows));
        before = now;
    }
}

TEST_CASE("IndexTopk: the scores themselves, where they are asked for") {
    const auto backends = backends_present();
    for (const TestBackend& on : backends) {
        for (Candidates mode : all_modes) {
            IndexCase c(9, 40, 20, 2, 5, 11);
            c.mode = mode;
            CAPTURE(int(mode));
            const Selection got = run_on(on, c, true), want = run_reference(c);
            CHECK(got.scores == want.scores);
            CHECK(got.topk == want.topk);
            c.k = 60;  // more than there are: nothing is chosen by score
            CHECK(run_on(on, c, true).scores == want.scores);
        }
    }
}

TEST_CASE("IndexTopk: equal scores go to the lower row") {
    IndexCase c(1, 100, 99, 1, 10, 6);
    c.q.assign(c.q.size(), to_bf16(0.0f));
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Selection got = run_on(on, c);
        for (int32_t j = 0; j < 10; ++j) CHECK(got.topk[j] == j);
    }
}

TEST_CASE("IndexTopk: the newest block is a candidate even if its rows score badly") {
    IndexCase c(1, 80, 75, 1, 4, 7, 1, 16);
    c.mode = Candidates::publish;
    c.q.assign(c.q.size(), to_bf16(0.0f));
    c.q[0] = to_bf16(1.0f);
    c.w[0] = to_bf16(1.0f);
    for (int32_t t = 0; t < 80; ++t) c.keys[t * 16] = to_bf16(t / 8 == 9 ? 0.0f : 1.0f);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Selection got = run_on(on, c);
        CHECK(got.candidates == std::vector<uint8_t>{1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0});
        CHECK(got.topk == std::vector<int32_t>{0, 1, 2, 3});  // publishing restricts nothing
    }
}

TEST_CASE("IndexTopk: rows outside the candidates are not filled in") {
    IndexCase c(1, 100, 99, 1, 30, 8);
    c.mode = Candidates::restrict;
    c.candidates.assign(c.candidates.size(), 0);
    c.candidates[2] = 1;
    c.candidates[12] = 1;  // rows 96 .. 99 exist
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<int32_t> want = {16, 17, 18, 19, 20, 21, 22, 23, 96, 97, 98, 99};
        want.resize(30, -1);
        CHECK(run_on(on, c).topk == want);
    }
}

// Negative weights and products that vanish: -0 and 0 are the same score.
TEST_CASE("IndexTopk: the sign of a zero score does not count") {
    IndexCase c(1, 40, 39, 1, 5, 9, 1, 16);
    c.q.assign(c.q.size(), to_bf16(0.0f));
    c.q[0] = to_bf16(1e-30f);
    c.w[0] = to_bf16(-1e-30f);
    for (int32_t t = 0; t < 40; ++t) c.keys[t * 16] = to_bf16(float(t % 3));
    check(backends_present(), c);
}
