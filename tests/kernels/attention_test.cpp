#include <doctest/doctest.h>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct AttentionCase {
    int32_t n, heads, dim, window, position, k, rows, ratio = 0;
    std::vector<bf16> q, buffer, chunk, compressed;
    std::vector<int32_t> topk;
    std::vector<float> sink;

    // rows == 0: no compressed set.
    AttentionCase(int32_t n, int32_t heads, int32_t dim, int32_t window, int32_t position,
                  int32_t k, int32_t rows, uint64_t seed)
        : n(n), heads(heads), dim(dim), window(window), position(position), k(k), rows(rows) {
        Random random(seed);
        q = random.activations(size_t(n) * heads * dim);
        buffer = random.activations(size_t(window) * dim);
        chunk = random.activations(size_t(n) * dim);
        compressed = random.activations(size_t(rows) * dim);
        sink = random.floats(heads, -2, 2);
        for (int32_t i = 0; i < n * k; ++i)
            topk.push_back(rows == 0 || random.below(4) == 0 ? -1 : random.below(rows));
    }
    // All rows that a query may see, instead of a list.
    void attend_all(int32_t every) {
        ratio = every;
        topk.clear();
    }
    size_t out_size() const { return size_t(n) * heads * dim; }
    SparseAttention op() const {
        SparseAttention op{};
        op.n = n;
        op.heads = heads;
        op.dim = dim;
        op.window = window;
        op.position = position;
        op.k = k;
        op.ratio = ratio;
        op.scale = 0.5f / std::sqrt(float(dim));
        return op;
    }
};

std::vector<bf16> run_on(const TestBackend& on, const AttentionCase& c) {
    Operands operands(on);
    SparseAttention op = c.op();
    op.out = operands.out<bf16>(c.out_size());
    op.q = operands.in(c.q);
    op.buffer = operands.in(c.buffer);
    op.chunk = operands.in(c.chunk);
    op.compressed = operands.in(c.compressed);
    op.topk = operands.in(c.topk);
    op.sink = operands.in(c.sink);
    on->run(op);
    return operands.fetch(op.out, c.out_size());
}

std::vector<bf16> run_reference(const AttentionCase& c) {
    std::vector<bf16> out(c.out_size());
    SparseAttention op = c.op();
    op.out = out.data();
    op.q = c.q.data();
    op.buffer = c.buffer.data();
    op.chunk = c.chunk.data();
    op.compressed = c.rows > 0 ? c.compressed.data() : nullptr;
    op.topk = c.topk.empty() ? nullptr : c.topk.data();
    op.sink = c.sink.data();
    reference::run(op);
    return out;
}

void check(const AttentionCase& c) {
    CAPTURE(c.n);
    CAPTURE(c.heads);
    CAPTURE(c.dim);
    CAPTURE(c.window);
    CAPTURE(c.position);
    CAPTURE(c.rows);
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

std::vector<bf16> store_on(const TestBackend& on, const std::vector<bf16>& buffer,
                           const std::vector<bf16>& chunk, int32_t n, int32_t dim, int32_t window,
                           int32_t position) {
    Operands operands(on);
    bf16* to = operands.in(buffer);
    on->run(WindowStore{to, operands.in(chunk), n, dim, window, position});
    return operands.fetch(to, buffer.size());
}

}  // namespace

TEST_CASE("SparseAttention: close to the reference at every border of the window") {
    for (int32_t position : {0, 1, 6, 7, 8, 9, 15, 16, 100})
        for (int32_t n : {1, 3, 20}) check(AttentionCase(n, 5, 64, 8, position, 6, 30, 1));
}

TEST_CASE("SparseAttention: close to the reference at awkward and real sizes") {
    check(AttentionCase(2, 1, 8, 3, 4, 5, 9, 2));
    check(AttentionCase(2, 3, 24, 1, 4, 5, 9, 3));
    check(AttentionCase(3, 17, 40, 8, 2, 0, 0, 4));  // no compressed set
    check(AttentionCase(2, 16, 512, 128, 1000, 512, 2000, 5));
    check(AttentionCase(1, 64, 512, 128, 77, 64, 100, 6));
}

TEST_CASE("SparseAttention: no key gives zero, a list of -1 only the window") {
    AttentionCase none(2, 4, 32, 0, 5, 3, 7, 7);
    none.topk.assign(none.topk.size(), -1);
    AttentionCase listed(2, 4, 32, 4, 5, 3, 7, 8), bare = listed;
    listed.topk.assign(listed.topk.size(), -1);
    bare.rows = 0;
    bare.compressed.clear();
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        for (bf16 y : run_on(on, none)) CHECK(y.bits == 0);
        CHECK(differences(run_on(on, listed), run_on(on, bare)) == 0);
    }
}

TEST_CASE("SparseAttention: with a ratio, the rows that are complete and no others") {
    for (int32_t ratio : {1, 4, 128})
        for (int32_t position : {0, 2, 3, 126, 127, 500})
            for (int32_t n : {1, 2, 9}) {
                CAPTURE(ratio);
                int32_t rows = (position + n) / ratio;
                AttentionCase all(n, 5, 64, 8, position, rows, rows, 14), listed = all;
                all.attend_all(ratio);
                for (int32_t i = 0; i < n; ++i)
                    for (int32_t t = 0; t < rows; ++t)
                        listed.topk[i * rows + t] = t < (position + i + 1) / ratio ? t : -1;
                check(all);
                CHECK(differences(run_reference(all), run_reference(listed)) == 0);
                for (auto& on : backends_present())
                    if (on.cpu) CHECK(differences(run_on(on, all), run_on(on, listed)) == 0);
            }
}

TEST_CASE("SparseAttention: with a ratio, thousands of rows") {
    AttentionCase many(2, 17, 40, 128, 16000, 4096, 4000, 15),
        one(1, 4, 512, 128, 4094, 64, 31, 16);
    many.attend_all(4);
    one.attend_all(128);
    check(many);
    check(one);
}

namespace {

// A chunk gives the same as its tokens one by one, with the buffer between them.
void check_tokens(const AttentionCase& c) {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> whole = run_on(on, c), buffer = c.buffer;
        AttentionCase one = c;
        one.n = 1;
        size_t wrong = 0, row = size_t(c.heads) * c.dim;
        for (int32_t i = 0; i < c.n; ++i) {
            one.position = c.position + i;
            one.buffer = buffer;
            one.q.assign(c.q.begin() + i * row, c.q.begin() + (i + 1) * row);
            one.chunk.assign(c.chunk.begin() + i * c.dim, c.chunk.begin() + (i + 1) * c.dim);
            if (c.ratio == 0)
                one.topk.assign(c.topk.begin() + i * c.k, c.topk.begin() + (i + 1) * c.k);
            std::vector<bf16> got = run_on(on, one);
            for (size_t d = 0; d < row; ++d) wrong += got[d].bits != whole[i * row + d].bits;
            buffer = store_on(on, buffer, one.chunk, 1, c.dim, c.window, one.position);
        }
        CHECK(wrong == 0);
        std::vector<bf16> at_once =
            store_on(on, c.buffer, c.chunk, c.n, c.dim, c.window, c.position);
        CHECK(differences(at_once, buffer) == 0);
    }
}

}  // namespace

TEST_CASE("SparseAttention and WindowStore: a chunk equals its tokens one at a time") {
    AttentionCase listed(19, 6, 48, 8, 13, 4, 40, 9), all = listed;
    all.k = 40;
    all.attend_all(4);
    check_tokens(listed);
    check_tokens(all);
}

TEST_CASE("SparseAttention: NaN stays in its head or in the queries that see its key") {
    AttentionCase head(2, 5, 32, 4, 9, 2, 6, 10), key(4, 5, 32, 2, 9, 0, 0, 11);
    head.q[(1 * 5 + 3) * 32 + 4] = to_bf16(NAN);  // query 1, head 3
    key.chunk[1 * 32 + 7] = to_bf16(NAN);         // position 10: queries 1 and 2
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> got = run_on(on, head);
        size_t wrong = 0;
        for (size_t d = 0; d < got.size(); ++d)
            wrong += std::isnan(to_float(got[d])) != (d / 32 == 1 * 5 + 3);
        CHECK(wrong == 0);
        got = run_on(on, key);
        wrong = 0;
        for (size_t d = 0; d < got.size(); ++d) {
            size_t query = d / (5 * 32);
            wrong += std::isnan(to_float(got[d])) != (query == 1 || query == 2);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("SparseAttention: a sink far above or below the scores") {
    AttentionCase c(2, 4, 32, 4, 9, 2, 6, 12);
    c.sink = {200.0f, -200.0f, 80.0f, -INFINITY};
    std::vector<bf16> want = run_reference(c);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        std::vector<bf16> got = run_on(on, c);
        CHECK(nmse(got, want) <= 1e-6);
        for (size_t d = 0; d < 32; ++d) CHECK(to_float(got[d]) == 0.0f);  // e^200 is infinite
    }
}

TEST_CASE("WindowStore: the last rows, each at its position modulo the window") {
    Random random(13);
    for (int32_t window : {1, 4, 128})
        for (int32_t n : {1, 3, 4, 5, 130})
            for (int32_t position : {0, 3, 127, 1001}) {
                CAPTURE(window);
                CAPTURE(n);
                CAPTURE(position);
                std::vector<bf16> buffer = random.activations(size_t(window) * 24);
                std::vector<bf16> chunk = random.activations(size_t(n) * 24), want = buffer;
                reference::run(WindowStore{want.data(), chunk.data(), n, 24, window, position});
                for (auto& on : backends_present())
                    CHECK(differences(store_on(on, buffer, chunk, n, 24, window, position), want) ==
                          0);
            }
}
