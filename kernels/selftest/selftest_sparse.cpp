// Source of selftest_case.h: the cases of attention, compressor, indexer, Engram, router and
// experts.
#include "kernels/selftest/selftest_case.h"

namespace sluice::selftest_detail {
namespace {

constexpr int32_t most = 1024;
constexpr double near = 1e-6;

// Ascending rows among those that query i may see, then -1.
std::vector<int32_t> chosen_rows(Random& random, int32_t n, int32_t k, int32_t rows) {
    std::vector<int32_t> all(size_t(n) * k, -1);
    for (int32_t i = 0; i < n; ++i) {
        int32_t at = 0;
        for (int32_t r = 0; r < rows && at < k; ++r)
            if (random.next() % 3 == 0) all[size_t(i) * k + at++] = r;
    }
    return all;
}

Case attention(int32_t heads, int32_t dim, int32_t window, int32_t k, int32_t n_max) {
    Random random(11);
    int32_t rows = 2 * k;
    auto q = random.halves(size_t(n_max) * heads * dim), chunk = random.halves(size_t(n_max) * dim);
    auto buffer = random.halves(size_t(window) * dim),
         compressed = random.halves(size_t(rows) * dim);
    auto topk = chosen_rows(random, n_max, k, rows);
    auto sink = random.floats(heads);
    return make_case("SparseAttention " + std::to_string(heads) + "x" + std::to_string(dim),
                     Values::halves, 4e-6, n_max, [=](auto& place, int32_t n, auto& out) {
                         bf16* o = place.template out<bf16>(size_t(n) * heads * dim);
                         SparseAttention op{o,
                                            place.in(q),
                                            place.in(buffer),
                                            place.in(chunk),
                                            place.in(compressed),
                                            place.in(topk),
                                            place.in(sink),
                                            n,
                                            heads,
                                            dim,
                                            window,
                                            2 * window + 5,
                                            k,
                                            1.0f / std::sqrt(float(dim))};
                         place.run(op);
                         place.fetch(out, o, size_t(n) * heads * dim);
                     });
}

// All rows that are complete, instead of a list.
Case attention_all(int32_t ratio, int32_t n_max) {
    Random random(24);
    constexpr int32_t heads = 6, dim = 96, window = 24, position = 53;
    int32_t rows = (position + n_max) / ratio;
    auto q = random.halves(size_t(n_max) * heads * dim), chunk = random.halves(size_t(n_max) * dim);
    auto buffer = random.halves(size_t(window) * dim),
         compressed = random.halves(size_t(rows) * dim);
    auto sink = random.floats(heads);
    return make_case("SparseAttention all", Values::halves, 4e-6, n_max,
                     [=](auto& place, int32_t n, auto& out) {
                         bf16* o = place.template out<bf16>(size_t(n) * heads * dim);
                         SparseAttention op{o,
                                            place.in(q),
                                            place.in(buffer),
                                            place.in(chunk),
                                            place.in(compressed),
                                            nullptr,
                                            place.in(sink),
                                            n,
                                            heads,
                                            dim,
                                            window,
                                            position,
                                            rows,
                                            1.0f / std::sqrt(float(dim)),
                                            ratio};
                         place.run(op);
                         place.fetch(out, o, size_t(n) * heads * dim);
                     });
}

Case window_store(int32_t n_max) {
    Random random(12);
    auto chunk = random.halves(size_t(n_max) * 64), buffer = random.halves(size_t(24) * 64);
    auto c =
        make_case("WindowStore", Values::bits, 0, n_max, [=](auto& place, int32_t n, auto& out) {
            bf16* r = place.in(buffer);
            place.run(WindowStore{r, place.in(chunk), n, 64, 24, 29});
            place.fetch(out, r, size_t(24) * 64);
        });
    c.rowwise = false;
    return c;
}

Case compress_pool(int32_t ratio) {
    Random random(13);
    auto kv = random.floats(size_t(most) * 96), gate = random.floats(size_t(most) * 96);
    auto open_kv = random.floats(size_t(ratio) * 96), open_gate = random.floats(size_t(ratio) * 96);
    return make_case(
        "CompressPool", Values::halves, near, most, [=](auto& place, int32_t n, auto& out) {
            int32_t groups = (1 + n) / ratio;
            bf16* latent = place.template out<bf16>(size_t(groups) * 96);
            place.run(CompressPool{latent, place.in(kv), place.in(gate), place.in(open_kv),
                                   place.in(open_gate), n, 96, ratio, 1});
            place.fetch(out, latent, size_t(groups) * 96);
        });
}

// Gates by place, and groups that overlap the one before.
Case compress_overlap(int32_t ratio) {
    Random random(25);
    constexpr int32_t dim = 96, open_rows = 1;
    size_t open = size_t(2) * ratio * 2 * dim;
    auto kv = random.floats(size_t(most) * 2 * dim), gate = random.floats(size_t(most) * 2 * dim);
    auto open_kv = random.floats(open), open_gate = random.floats(open);
    auto by_place = random.floats(size_t(ratio) * 2 * dim);
    return make_case("CompressPool overlap", Values::halves, near, most,
                     [=](auto& place, int32_t n, auto& out) {
                         int32_t groups = (open_rows + n) / ratio;
                         bf16* latent = place.template out<bf16>(size_t(groups) * dim);
                         place.run(CompressPool{latent, place.in(kv), place.in(gate),
                                                place.in(open_kv), place.in(open_gate), n, dim,
                                                ratio, open_rows, place.in(by_place), true, true});
                         place.fetch(out, latent, size_t(groups) * dim);
                     });
}

// Small integers: every order of additions gives the same scores, and many of them are equal.
std::vector<bf16> whole(Random& random, size_t count, int32_t low, int32_t high) {
    std::vector<bf16> v(count);
    for (auto& x : v) x = to_bf16(float(low + int32_t(random.next() % uint64_t(high - low + 1))));
    return v;
}

Case index_topk(Candidates mode, int32_t n_max) {
    Random random(14);
    constexpr int32_t heads = 8, dim = 64, k = 16, block = 8, keep = 20, position = 600;
    int32_t rows = position + n_max, blocks = (rows + block - 1) / block;
    auto q = whole(random, size_t(n_max) * heads * dim, -1, 1),
         keys = whole(random, size_t(rows) * dim, -1, 1);
    auto w = whole(random, size_t(n_max) * heads, 0, 3);
    std::vector<uint8_t> marks(size_t(n_max) * blocks, 0);
    for (auto& m : marks) m = random.next() % 2 == 0;
    const char* names[] = {"IndexTopk", "IndexTopk publish", "IndexTopk restrict"};
    return make_case(
        names[int(mode)], Values::bits, 0, n_max, [=](auto& place, int32_t n, auto& out) {
            auto* top = place.template out<int32_t>(size_t(n) * k);
            auto* candidates = place.in(marks);
            place.run(IndexTopk{top, candidates, place.in(q), place.in(w), place.in(keys),
                                place.template out<float>(index_scratch_floats(n, rows)), n, heads,
                                dim, k, position, 1, rows, block, keep, blocks, mode});
            std::vector<std::byte> a, b;
            place.fetch(a, top, size_t(n) * k);
            place.fetch(b, candidates, size_t(n) * blocks);
            for (int32_t i = 0; i < n; ++i) {
                out.insert(out.end(), a.begin() + i * k * 4, a.begin() + (i + 1) * k * 4);
                if (mode == Candidates::publish)
                    out.insert(out.end(), b.begin() + size_t(i) * blocks,
                               b.begin() + size_t(i + 1) * blocks);
            }
        });
}

Case engram_gather() {
    Random random(15);
    auto codes = random.e4m3(50 * 64), scales = random.bytes(50 * 2, 110, 130);
    std::vector<int32_t> index(size_t(most) * 6);
    for (auto& i : index) i = int32_t(random.next() % 50);
    return make_case("EngramGather", Values::bits, 0, most, [=](auto& place, int32_t n, auto& out) {
        size_t values = size_t(n) * 6 * 64;
        QuantRows q{place.template out<uint8_t>(values), place.template out<uint8_t>(values / 32)};
        place.run(EngramGather{q, place.in(codes), place.in(scales), place.in(index), n, 6, 64});
        place.fetch(out, q.codes, values);
    });
}

Case engram_gate(int32_t dim) {
    Random random(16);
    auto h = random.halves(size_t(most) * 4 * dim), kv = random.halves(size_t(most) * 5 * dim);
    auto qw = random.halves(size_t(4) * dim), kw = random.halves(size_t(4) * dim);
    return make_case(
        "EngramGate", Values::halves, near, most, [=](auto& place, int32_t n, auto& out) {
            bf16* v = place.in(h);
            place.run(EngramGate{v, place.in(kv), place.in(qw), place.in(kw), n, 4, dim, 1e-20f});
            place.fetch(out, v, size_t(n) * 4 * dim);
        });
}

// Ids and weights in one list of numbers, so that a wrong id is a large error.
Case route(const char* name, int32_t experts, int32_t k, bool given) {
    Random random(17);
    auto gate = whole(random, size_t(experts) * 64, -2, 2),
         x = whole(random, size_t(most) * 64, -1, 1);
    for (auto& v : x) v = to_bf16(to_float(v) * 0.0625f);
    auto bias = random.floats(experts, 0.1f);
    std::vector<int32_t> fixed(size_t(most) * k);
    for (auto& id : fixed) id = int32_t(random.next() % uint64_t(experts));
    return make_case(name, Values::floats, 1e-9, most, [=](auto& place, int32_t n, auto& out) {
        auto* ids = given ? place.in(fixed) : place.template out<int32_t>(size_t(n) * k);
        auto* weights = place.template out<float>(size_t(n) * k);
        place.run(Route{ids,
                        weights,
                        {place.in(gate), experts, 64},
                        given ? nullptr : place.in(bias),
                        place.in(x),
                        n,
                        k,
                        1.5f,
                        given ? 0.0f : 1e-20f,
                        given,
                        given});
        std::vector<std::byte> a, b;
        place.fetch(a, ids, size_t(n) * k);
        place.fetch(b, weights, size_t(n) * k);
        for (size_t i = 0; i < size_t(n) * k; ++i) {
            int32_t id;
            std::memcpy(&id, a.data() + i * 4, 4);
            float number = float(id);
            auto* bytes = reinterpret_cast<const std::byte*>(&number);
            out.insert(out.end(), bytes, bytes + 4);
            out.insert(out.end(), b.begin() + ptrdiff_t(i) * 4, b.begin() + ptrdiff_t(i + 1) * 4);
        }
    });
}

Case swiglu(const char* name, int32_t cols, int32_t group) {
    Random random(18);
    auto g = random.halves(size_t(most) * cols, 4.0f), u = random.halves(size_t(most) * cols, 4.0f);
    for (size_t i = 0; i < u.size(); ++i)  // small values that a wide group loses
        if (i / 32 % 4 == 1) u[i] = to_bf16(to_float(u[i]) * 0x1p-16f);
    auto w = random.floats(most);
    return make_case(name, Values::bits, 0, most, [=](auto& place, int32_t n, auto& out) {
        size_t values = size_t(n) * cols;
        QuantRows q{place.template out<uint8_t>(values), place.template out<uint8_t>(values / 32)};
        place.run(Swiglu{q, place.in(g), place.in(u), place.in(w), n, cols, 10.0f, group});
        fetch_quantised(place, q, n, cols, out);
    });
}

struct ExpertData {
    int32_t dim, inner;
    std::vector<uint8_t> c1, s1, c2, s2, c3, s3;
};
ExpertData expert_data(Random& random, int32_t dim, int32_t inner) {
    size_t values = size_t(dim) * inner;
    auto scales = [&] {
        auto s = random.bytes(values / 32, 114, 124);
        s[0] = 0, s[1] = 1, s[2] = 127;
        return s;
    };
    auto c1 = random.bytes(values / 2), c2 = random.bytes(values / 2),
         c3 = random.bytes(values / 2);
    return {dim, inner, c1, scales(), c2, scales(), c3, scales()};
}
ExpertWeights place_expert(auto& place, const ExpertData& e) {
    return {{place.in(e.c1), place.in(e.s1), e.inner, e.dim},
            {place.in(e.c2), place.in(e.s2), e.dim, e.inner},
            {place.in(e.c3), place.in(e.s3), e.inner, e.dim}};
}

struct Tokens {
    std::vector<uint8_t> codes, scales;
    std::vector<int32_t> rows, slots;
    std::vector<float> weights;
};
Tokens tokens_of(Random& random, int32_t n, int32_t dim) {
    Tokens t{random.e4m3(size_t(n) * dim),
             random.bytes(size_t(n) * (dim / 32), 112, 122),
             {},
             {},
             random.floats(n)};
    for (int32_t i = 0; i < n; ++i) {
        t.rows.push_back(int32_t(random.next() % uint64_t(n)));
        t.slots.push_back(i);
    }
    return t;
}

// In a group of 128, one inner block in four is made small, and large again by w2.
void spread_blocks(ExpertData& e) {
    for (int32_t r = 0; r < e.inner; ++r)
        for (int32_t b = 0; r / 32 % 4 == 1 && b < e.dim / 32; ++b)
            e.s1[size_t(r) * (e.dim / 32) + b] -= 16;
    for (int32_t r = 0; r < e.dim; ++r)
        for (int32_t b = 1; b < e.inner / 32; b += 4) e.s2[size_t(r) * (e.inner / 32) + b] += 16;
}

Case routed_expert(int32_t dim, int32_t inner, int32_t n_max, int32_t group = 32) {
    Random random(19);
    auto e = expert_data(random, dim, inner);
    if (group == 128) spread_blocks(e);
    auto t = tokens_of(random, n_max, dim);
    return make_case("RoutedExpert " + std::to_string(inner) + "x" + std::to_string(dim) +
                         (group == 128 ? " /128" : ""),
                     Values::bits, 0, n_max, [=](auto& place, int32_t n, auto& out) {
                         bf16* o = place.template out<bf16>(size_t(n) * dim);
                         place.run(RoutedExpert{o,
                                                place_expert(place, e),
                                                {place.in(t.codes), place.in(t.scales)},
                                                place.shared(t.rows),
                                                place.shared(t.slots),
                                                place.shared(t.weights),
                                                n,
                                                10.0f,
                                                group});
                         place.fetch(out, o, size_t(n) * dim);
                     });
}

// Seven experts with one row each, one with all the others.
Case expert_batch(int32_t dim, int32_t inner, int32_t n_max) {
    Random random(20);
    auto a = expert_data(random, dim, inner), b = expert_data(random, dim, inner);
    auto t = tokens_of(random, n_max, dim);
    return make_case(
        "RoutedExpertBatch", Values::bits, 0, n_max, [=](auto& place, int32_t n, auto& out) {
            bf16* o = place.template out<bf16>(size_t(n) * dim);
            ExpertWeights experts[2] = {place_expert(place, a), place_expert(place, b)};
            QuantRows x{place.in(t.codes), place.in(t.scales)};
            auto *rows = place.shared(t.rows), *slots = place.shared(t.slots);
            auto* weights = place.shared(t.weights);
            std::vector<RoutedExpert> items;
            for (int32_t at = 0; at < n;) {
                int32_t count = at < 7 ? 1 : n - at;
                items.push_back({o, experts[items.size() % 2 && at < 7], x, rows + at, slots + at,
                                 weights + at, count, 10.0f});
                at += count;
            }
            place.run(RoutedExpertBatch{items.data(), int32_t(items.size())});
            place.fetch(out, o, size_t(n) * dim);
        });
}

Case combine() {
    Random random(21);
    auto partial = random.halves(size_t(most) * 6 * 96), shared = random.halves(size_t(most) * 96);
    return make_case("Combine", Values::halves, near, most, [=](auto& place, int32_t n, auto& out) {
        bf16* y = place.template out<bf16>(size_t(n) * 96);
        place.run(Combine{y, place.in(partial), place.in(shared), n, 6, 96});
        place.fetch(out, y, size_t(n) * 96);
    });
}

// Few distinct values, so that many are the largest; some rows have a non-finite one.
Case best() {
    Random random(23);
    constexpr int32_t n_max = 65, count = 5003;
    auto x = random.floats(size_t(n_max) * count);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(int(x[i] * 8));
    for (int32_t i = 3; i < n_max; i += 4) {
        x[size_t(i) * count + size_t(i) * 70] = i % 8 == 3 ? NAN : INFINITY;
        x[size_t(i) * count + 4900] = -INFINITY;
    }
    return make_case("Best", Values::bits, 0, n_max, [=](auto& place, int32_t n, auto& out) {
        auto* found = place.template out<int32_t>(size_t(n) * 2);
        place.run(Best{found, place.in(x), n, count});
        place.fetch(out, found, size_t(n) * 2);
    });
}

}  // namespace

std::vector<Case> sparse_cases() {
    return {attention(6, 96, 24, 16, most),
            attention(20, 512, 128, 512, 17),
            attention_all(4, most),
            window_store(most),
            compress_pool(2),
            compress_overlap(4),
            index_topk(Candidates::none, most),
            index_topk(Candidates::publish, most),
            index_topk(Candidates::restrict, 300),
            engram_gather(),
            engram_gate(160),
            route("Route 24", 24, 3, false),
            route("Route 384", 384, 6, false),
            route("Route given", 256, 6, true),
            route("Route given one", 33, 1, true),
            swiglu("Swiglu", 96, 32),
            swiglu("Swiglu /128", 384, 128),
            routed_expert(288, 160, most),
            routed_expert(5120, 96, 17),
            routed_expert(1024, 768, 65),
            routed_expert(5120, 2304, 5),
            routed_expert(288, 384, 300, 128),
            routed_expert(4096, 128, 17, 128),
            routed_expert(1024, 768, 17, 128),
            routed_expert(4096, 2048, 5, 128),
            expert_batch(256, 64, 300),
            combine(),
            best()};
}

}  // namespace sluice::selftest_detail
