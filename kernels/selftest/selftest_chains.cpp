// Source of selftest_case.h: the cases of chains. Each chain is run whole and as the sum of its
// parts. Every output of the two must be identical to the last bit, and its main output near the
// reference's.
#include "kernels/selftest/selftest_case.h"

namespace sluice::selftest_detail {
namespace {

constexpr double near = 1e-6;

struct Output {
    const void* at;
    size_t row_bytes;
};
template <class Chain>
struct Built {
    Chain op;
    std::vector<Output> outputs;  // the first one, bf16, is compared with the reference
};

// For every row: the main output, then 1 if all outputs of both ways agree in this row, else NaN.
template <class Build>
Case chain_case(std::string name, int32_t rows_max, Build build) {
    return make_case(
        std::move(name), Values::halves, near, rows_max,
        [build](auto& place, int32_t n, auto& out) {
            auto whole = build(place, n), parts = build(place, n);
            place.run(whole.op);
            place.run_parts(parts.op);
            std::vector<std::vector<std::byte>> a(whole.outputs.size()), b(a.size());
            for (size_t i = 0; i < a.size(); ++i) {
                size_t bytes = whole.outputs[i].row_bytes * size_t(n);
                place.fetch(a[i], static_cast<const std::byte*>(whole.outputs[i].at), bytes);
                place.fetch(b[i], static_cast<const std::byte*>(parts.outputs[i].at), bytes);
            }
            for (size_t row = 0; row < size_t(n); ++row) {
                bool same = true;
                for (size_t i = 0; i < a.size(); ++i) {
                    size_t bytes = whole.outputs[i].row_bytes;
                    same &= std::memcmp(a[i].data() + row * bytes, b[i].data() + row * bytes,
                                        bytes) == 0;
                }
                size_t bytes = whole.outputs[0].row_bytes;
                out.insert(out.end(), a[0].begin() + ptrdiff_t(row * bytes),
                           a[0].begin() + ptrdiff_t((row + 1) * bytes));
                bf16 flag = to_bf16(same ? 1.0f : NAN);
                auto* raw = reinterpret_cast<const std::byte*>(&flag);
                out.insert(out.end(), raw, raw + 2);
            }
        });
}

// What a model's steps between sub-layers are like.
struct StepKind {
    bool expands = false, combines = false;
    bool own = false;   // collapsed with the step's own pre
    bool ends = false;  // no post and comb
    int32_t group = 32;
};
Case hyper_step(const char* name, StepKind kind, int32_t dim, int32_t n_max) {
    bool expands = kind.expands, combines = kind.combines;
    int32_t mixes = kind.ends ? 4 : 24;
    Random random(31);
    auto h = random.halves(size_t(n_max) * 4 * dim), x = random.halves(size_t(n_max) * dim),
         w = random.halves(dim);
    auto partial = random.halves(size_t(n_max) * 6 * dim),
         shared = random.halves(size_t(n_max) * dim);
    auto post = random.floats(size_t(n_max) * 4), comb = random.floats(size_t(n_max) * 16);
    auto pre = random.floats(size_t(n_max) * 4), fn = random.floats(size_t(mixes) * 4 * dim, 0.1f);
    auto base = random.floats(mixes), scale = random.floats(3);
    return chain_case(name, n_max, [=](auto& place, int32_t n) {
        size_t rows = size_t(n), width = size_t(dim);
        HyperStep op{};
        bf16* to = expands ? place.template out<bf16>(rows * 4 * dim) : place.in(h);
        bf16* y = expands ? place.in(x) : nullptr;
        if (combines) op.combine = {y, place.in(partial), place.in(shared), n, 6, dim};
        if (expands) op.expand = {place.in(h), y, place.in(post), place.in(comb), n, 4, dim};
        op.mix = {place.template out<float>(rows * 4),
                  kind.ends ? nullptr : place.template out<float>(rows * 4),
                  kind.ends ? nullptr : place.template out<float>(rows * 16),
                  to,
                  {place.in(fn), mixes, 4 * dim},
                  place.in(base),
                  place.in(scale),
                  n,
                  4,
                  dim,
                  20,
                  1e-20f,
                  1e-6f};
        const float* weights = kind.own ? op.mix.pre : place.in(pre);
        op.collapse = {place.template out<bf16>(rows * dim), weights, to, n, 4, dim};
        op.norm = {
            place.template out<bf16>(rows * dim), op.collapse.x, place.in(w), n, dim, 1e-20f};
        QuantRows q{place.template out<uint8_t>(rows * dim),
                    place.template out<uint8_t>(rows * dim / 32)};
        op.quant = {q, op.norm.y, n, dim, kind.group};
        Built<HyperStep> built{op,
                               {{op.norm.y, width * 2},
                                {to, 8 * width},
                                {op.mix.pre, 16},
                                {op.collapse.x, width * 2},
                                {q.codes, width},
                                {q.scales, width / 32}}};
        if (kind.ends) return built;
        built.outputs.push_back({op.mix.post, 16});
        built.outputs.push_back({op.mix.comb, 64});
        return built;
    });
}

struct Weights {
    std::vector<uint8_t> codes, scales;
    int32_t rows, cols;
    Fp8Matrix in(auto& place) const { return {place.in(codes), place.in(scales), rows, cols}; }
};
Weights weights(Random& random, int32_t rows, int32_t cols) {
    return {random.e4m3(size_t(rows) * cols),
            random.bytes(size_t(rows + 31) / 32 * (cols / 32), 108, 120), rows, cols};
}

struct Rows {
    std::vector<uint8_t> codes, scales;
    QuantRows in(auto& place) const { return {place.in(codes), place.in(scales)}; }
};
Rows quant_rows(Random& random, int32_t n, int32_t cols) {
    return {random.e4m3(size_t(n) * cols), random.bytes(size_t(n) * (cols / 32), 110, 122)};
}

Case linear_pair() {
    constexpr int32_t n_max = 65;
    Random random(32);
    auto a = weights(random, 48, 1280), b = weights(random, 80, 1280);
    auto x = quant_rows(random, n_max, 1280);
    return chain_case("LinearFp8Pair", n_max, [=](auto& place, int32_t n) {
        QuantRows rows = x.in(place);
        LinearFp8Pair op{{place.template out<bf16>(size_t(n) * 48), a.in(place), rows, n},
                         {place.template out<bf16>(size_t(n) * 80), b.in(place), rows, n}};
        return Built<LinearFp8Pair>{op, {{op.a.y, 96}, {op.b.y, 160}}};
    });
}

// In groups of 128, the key is quantised in groups of 64 and its rotated values are kept.
Case latent_finish(const char* name, bool store, int32_t group) {
    constexpr int32_t n_max = 65, key = 96, window = 80;
    int32_t query = group == 128 ? 384 : 192;
    Random random(33);
    auto q = random.halves(size_t(n_max) * query), k = random.halves(size_t(n_max) * key);
    auto qw = random.halves(query), kw = random.halves(key);
    Requant kind = group == 128 ? Requant::fp8_64 : Requant::fp8_32;
    int32_t kept = group == 128 ? 32 : 0;
    return chain_case(name, n_max, [=](auto& place, int32_t n) {
        bf16 *qr = place.in(q), *kv = place.in(k);
        QuantRows out{place.template out<uint8_t>(size_t(n) * query),
                      place.template out<uint8_t>(size_t(n) * query / 32)};
        LatentFinish op{{qr, qr, place.in(qw), n, query, 1e-20f},
                        {out, qr, n, query, group},
                        {kv, kv, place.in(kw), n, key, 1e-20f},
                        {kv, n, 1, key, rope_of(place, 2 * n_max, 16), 7, 1, false, kind, kept},
                        {}};
        bf16* buffer = place.template out<bf16>(size_t(window) * key);
        if (store) op.store = {buffer, kv, n, key, window, 0};
        Built<LatentFinish> built{op,
                                  {{qr, size_t(query) * 2},
                                   {kv, key * 2},
                                   {out.codes, size_t(query)},
                                   {out.scales, size_t(query) / 32}}};
        if (store) built.outputs.push_back({buffer, key * 2});
        return built;
    });
}

// Normed: with normed heads, and all rows instead of a list.
Case rotated_attention(const char* name, bool normed) {
    constexpr int32_t n_max = 65, heads = 6, dim = 96, window = 24, k = 16;
    Random random(34);
    auto q = random.halves(size_t(n_max) * heads * dim), chunk = random.halves(size_t(n_max) * dim);
    auto buffer = random.halves(size_t(window) * dim), rows = random.halves(size_t(2) * k * dim);
    auto sink = random.floats(heads);
    std::vector<int32_t> topk(size_t(n_max) * k);
    for (size_t i = 0; i < topk.size(); ++i) topk[i] = i % k < 11 ? int32_t(2 * (i % k)) : -1;
    return chain_case(name, n_max, [=](auto& place, int32_t n) {
        RopeTable rope = rope_of(place, n_max + 40, 16);
        bf16 *queries = place.in(q), *out = place.template out<bf16>(size_t(n) * heads * dim);
        RotatedAttention op{
            {queries, n, heads, dim, rope, 31, 1, false, Requant::none},
            {out, queries, place.in(buffer), place.in(chunk), place.in(rows), place.in(topk),
             place.in(sink), n, heads, dim, window, 31, k, 0.102062073f},
            {out, n, heads, dim, rope, 31, 1, true, Requant::none}};
        if (normed) {
            op.norm = {queries, n, heads, dim, 1e-6f};
            op.attention.topk = nullptr;
            op.attention.ratio = 6;  // (31 + 65) / 6 == k
        }
        return Built<RotatedAttention>{op, {{out, heads * dim * 2}}};
    });
}

Case grouped_quant(const char* name, int32_t groups, int32_t group) {
    constexpr int32_t n_max = 65, rank = 32, cols = 256;
    Random random(35);
    auto w = weights(random, groups * rank, cols);
    auto o = random.halves(size_t(n_max) * groups * cols);
    return chain_case(name, n_max, [=](auto& place, int32_t n) {
        size_t values = size_t(n) * groups * rank;
        bf16* t = place.template out<bf16>(values);
        QuantRows out{place.template out<uint8_t>(values),
                      place.template out<uint8_t>(values / 32)};
        GroupedOutputQuant op{{t, w.in(place), place.in(o), n, groups},
                              {out, t, n, groups * rank, group}};
        return Built<GroupedOutputQuant>{op,
                                         {{t, size_t(groups) * rank * 2},
                                          {out.codes, size_t(groups) * rank},
                                          {out.scales, size_t(groups)}}};
    });
}

// The main output would be codes, which a reference with another order of additions may round to a
// neighbour. So they are compared as bits with the parts, and with the reference through the next
// linear.
Case gate_up(const char* name, int32_t inner, int32_t group) {
    constexpr int32_t n_max = 65, dim = 1280;
    Random random(36);
    auto g = weights(random, inner, dim), u = weights(random, inner, dim),
         down = weights(random, 32, inner);
    auto x = quant_rows(random, n_max, dim);
    auto c = chain_case(name, n_max, [=](auto& place, int32_t n) {
        size_t values = size_t(n) * inner;
        QuantRows rows = x.in(place), out{place.template out<uint8_t>(values),
                                          place.template out<uint8_t>(values / 32)};
        bf16 *gate = place.template out<bf16>(values), *up = place.template out<bf16>(values);
        GateUp op{{gate, g.in(place), rows, n},
                  {up, u.in(place), rows, n},
                  {out, gate, up, nullptr, n, inner, 10.0f, group}};
        place.run(op);
        bf16* y = place.template out<bf16>(size_t(n) * 32);
        place.run(LinearFp8{y, down.in(place), out, n});
        QuantRows again{place.template out<uint8_t>(values),
                        place.template out<uint8_t>(values / 32)};
        op.swiglu.out = again;
        return Built<GateUp>{
            op, {{y, 64}, {again.codes, size_t(inner)}, {again.scales, size_t(inner) / 32}}};
    });
    c.limit = 1e-4;  // a value between two codes may go to either side
    return c;
}

}  // namespace

std::vector<Case> chain_cases() {
    StepKind plain, expand{true}, combine{true, true}, own{true, true, true, false, 128},
        end{true, true, true, true, 128};
    return {hyper_step("HyperStep", plain, 160, 300),
            hyper_step("HyperStep expand", expand, 160, 300),
            hyper_step("HyperStep combine", combine, 160, 300),
            hyper_step("HyperStep combine 5120", combine, 5120, 17),
            hyper_step("HyperStep own", own, 256, 300),
            hyper_step("HyperStep own 4096", own, 4096, 17),
            hyper_step("HyperStep end", end, 256, 300),
            linear_pair(),
            latent_finish("LatentFinish", false, 32),
            latent_finish("LatentFinish store", true, 32),
            latent_finish("LatentFinish /128", true, 128),
            rotated_attention("RotatedAttention", false),
            rotated_attention("RotatedAttention normed", true),
            grouped_quant("GroupedOutputQuant", 3, 32),
            grouped_quant("GroupedOutputQuant /128", 4, 128),
            gate_up("GateUp", 64, 32),
            gate_up("GateUp /128", 128, 128)};
}

}  // namespace sluice::selftest_detail
