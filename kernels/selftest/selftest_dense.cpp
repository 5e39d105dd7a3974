// Source of selftest_case.h: the cases of quantisers, norms, linears and hyper-connections.
#include "kernels/selftest/selftest_case.h"

namespace sluice::selftest_detail {
namespace {

constexpr int32_t most = 1024;
constexpr double near = 1e-6;

// The name of a case with another size of quantised groups.
std::string grouped(std::string name, int32_t group) {
    return group == 32 ? name : name + " /" + std::to_string(group);
}

Case act_quant(int32_t cols, int32_t group) {
    auto x = Random(1).halves(size_t(most) * cols);
    for (int i = 0; i < 32; ++i) x[i] = to_bf16(0.0f);  // an empty group takes the smallest scale
    x[40] = to_bf16(INFINITY);
    // Small values that a wide group loses.
    for (int i = cols + 64; i < 2 * cols; ++i) x[i] = to_bf16(to_float(x[i]) * 0x1p-15f);
    return make_case(grouped("ActQuant", group), Values::bits, 0, most,
                     [=](auto& place, int32_t n, auto& out) {
                         size_t values = size_t(n) * cols;
                         QuantRows q{place.template out<uint8_t>(values),
                                     place.template out<uint8_t>(values / 32)};
                         place.run(ActQuant{q, place.in(x), n, cols, group});
                         fetch_quantised(place, q, n, cols, out);
                     });
}

Case rope_requant(const char* name, Requant kind, bool inverse, bool rotate) {
    auto x = Random(2).halves(size_t(most) * 3 * 96);
    return make_case(name, Values::bits, 0, most, [=](auto& place, int32_t n, auto& out) {
        bf16* v = place.in(x);
        RopeTable rope = rope_of(place, 2 * most + 2, 16);
        if (!rotate) rope = RopeTable{};
        place.run(RopeRequant{v, n, 3, 96, rope, 1, 2, inverse, kind});
        place.fetch(out, v, size_t(n) * 3 * 96);
    });
}

// The rotated values are kept as they are.
Case requant_kept() {
    auto x = Random(22).halves(size_t(most) * 3 * 96);
    return make_case("RopeRequant fp8/64", Values::bits, 0, most,
                     [=](auto& place, int32_t n, auto& out) {
                         bf16* v = place.in(x);
                         place.run(RopeRequant{v, n, 3, 96, rope_of(place, 2 * most + 2, 16), 1, 2,
                                               false, Requant::fp8_64, 32});
                         place.fetch(out, v, size_t(n) * 3 * 96);
                     });
}

Case hadamard(int32_t dim) {
    auto x = Random(23).halves(size_t(most) * dim);
    return make_case("Hadamard " + std::to_string(dim), Values::bits, 0, most,
                     [=](auto& place, int32_t n, auto& out) {
                         bf16* v = place.in(x);
                         place.run(Hadamard{v, n, dim});
                         place.fetch(out, v, size_t(n) * dim);
                     });
}

Case head_norm(int32_t heads, int32_t dim) {
    auto x = Random(24).halves(size_t(most) * heads * dim);
    return make_case("HeadNorm " + std::to_string(dim), Values::halves, near, most,
                     [=](auto& place, int32_t n, auto& out) {
                         bf16* v = place.in(x);
                         place.run(HeadNorm{v, n, heads, dim, 1e-6f});
                         place.fetch(out, v, size_t(n) * heads * dim);
                     });
}

Case rms_norm(int32_t cols) {
    Random random(3);
    auto x = random.halves(size_t(most) * cols), w = random.halves(cols);
    return make_case("RmsNorm", Values::halves, near, most, [=](auto& place, int32_t n, auto& out) {
        bf16* y = place.template out<bf16>(size_t(n) * cols);
        place.run(RmsNorm{y, place.in(x), place.in(w), n, cols, 1e-20f});
        place.fetch(out, y, size_t(n) * cols);
    });
}

struct Fp8Data {
    std::vector<uint8_t> codes, scales, x, x_scales;
};

Case linear_fp8(int32_t rows, int32_t cols, int32_t n_max) {
    Random random(4);
    Fp8Data d{random.e4m3(size_t(rows) * cols),
              random.bytes(size_t(rows + 31) / 32 * (cols / 32), 108, 120),
              random.e4m3(size_t(n_max) * cols),
              random.bytes(size_t(n_max) * (cols / 32), 110, 124)};
    return make_case("LinearFp8 " + std::to_string(rows) + "x" + std::to_string(cols),
                     Values::halves, near, n_max, [=](auto& place, int32_t n, auto& out) {
                         bf16* y = place.template out<bf16>(size_t(n) * rows);
                         Fp8Matrix w{place.in(d.codes), place.in(d.scales), rows, cols};
                         place.run(LinearFp8{y, w, {place.in(d.x), place.in(d.x_scales)}, n});
                         place.fetch(out, y, size_t(n) * rows);
                     });
}

Case linear_bf16(int32_t rows, int32_t cols, int32_t n_max, bool wide) {
    Random random(5);
    auto w = random.halves(size_t(rows) * cols, 0.1f), x = random.halves(size_t(n_max) * cols);
    return make_case("LinearBf16 " + std::to_string(rows) + "x" + std::to_string(cols),
                     wide ? Values::floats : Values::halves, near, n_max,
                     [=](auto& place, int32_t n, auto& out) {
                         size_t count = size_t(n) * rows;
                         float* f = wide ? place.template out<float>(count) : nullptr;
                         bf16* h = wide ? nullptr : place.template out<bf16>(count);
                         place.run(LinearBf16{h, f, {place.in(w), rows, cols}, place.in(x), n});
                         if (wide)
                             place.fetch(out, f, count);
                         else
                             place.fetch(out, h, count);
                     });
}

Case grouped_output(int32_t groups, int32_t rank, int32_t cols, int32_t n_max) {
    Random random(6);
    int32_t rows = groups * rank;
    auto codes = random.e4m3(size_t(rows) * cols);
    auto scales = random.bytes(size_t(rows + 31) / 32 * (cols / 32), 108, 120);
    auto o = random.halves(size_t(n_max) * groups * cols);
    return make_case(
        "GroupedOutput", Values::halves, near, n_max, [=](auto& place, int32_t n, auto& out) {
            bf16* t = place.template out<bf16>(size_t(n) * rows);
            place.run(GroupedOutput{
                t, {place.in(codes), place.in(scales), rows, cols}, place.in(o), n, groups});
            place.fetch(out, t, size_t(n) * rows);
        });
}

Case hyper_mix(int32_t dim) {
    Random random(7);
    auto h = random.halves(size_t(most) * 4 * dim);
    auto fn = random.floats(size_t(24) * 4 * dim, 0.1f), base = random.floats(24),
         scale = random.floats(3);
    return make_case("HyperMix", Values::floats, near, most,
                     [=](auto& place, int32_t n, auto& out) {
                         float* pre = place.template out<float>(size_t(n) * 4);
                         float* post = place.template out<float>(size_t(n) * 4);
                         float* comb = place.template out<float>(size_t(n) * 16);
                         place.run(HyperMix{pre,
                                            post,
                                            comb,
                                            place.in(h),
                                            {place.in(fn), 24, 4 * dim},
                                            place.in(base),
                                            place.in(scale),
                                            n,
                                            4,
                                            dim,
                                            20,
                                            1e-20f,
                                            1e-6f});
                         std::vector<std::byte> a, b, c;
                         place.fetch(a, pre, size_t(n) * 4);
                         place.fetch(b, post, size_t(n) * 4);
                         place.fetch(c, comb, size_t(n) * 16);
                         for (int32_t i = 0; i < n; ++i) {
                             out.insert(out.end(), a.begin() + i * 16, a.begin() + (i + 1) * 16);
                             out.insert(out.end(), b.begin() + i * 16, b.begin() + (i + 1) * 16);
                             out.insert(out.end(), c.begin() + i * 64, c.begin() + (i + 1) * 64);
                         }
                     });
}

Case hyper_pre(int32_t dim) {
    Random random(25);
    auto h = random.halves(size_t(most) * 4 * dim);
    auto fn = random.floats(size_t(4) * 4 * dim, 0.1f), base = random.floats(4),
         scale = random.floats(1);
    return make_case("HyperMix pre", Values::floats, near, most,
                     [=](auto& place, int32_t n, auto& out) {
                         HyperMix op{};
                         op.pre = place.template out<float>(size_t(n) * 4);
                         op.h = place.in(h);
                         op.fn = {place.in(fn), 4, 4 * dim};
                         op.base = place.in(base);
                         op.scale = place.in(scale);
                         op.n = n;
                         op.hc = 4;
                         op.dim = dim;
                         op.eps = op.hc_eps = 1e-6f;
                         place.run(op);
                         place.fetch(out, op.pre, size_t(n) * 4);
                     });
}

Case hyper_collapse(int32_t dim) {
    Random random(8);
    auto h = random.halves(size_t(most) * 4 * dim);
    auto pre = random.floats(size_t(most) * 4);
    return make_case("HyperCollapse", Values::halves, near, most,
                     [=](auto& place, int32_t n, auto& out) {
                         bf16* x = place.template out<bf16>(size_t(n) * dim);
                         place.run(HyperCollapse{x, place.in(pre), place.in(h), n, 4, dim});
                         place.fetch(out, x, size_t(n) * dim);
                     });
}

Case hyper_expand(int32_t dim) {
    Random random(9);
    auto h = random.halves(size_t(most) * 4 * dim), x = random.halves(size_t(most) * dim);
    auto post = random.floats(size_t(most) * 4), comb = random.floats(size_t(most) * 16);
    return make_case(
        "HyperExpand", Values::halves, near, most, [=](auto& place, int32_t n, auto& out) {
            bf16* v = place.in(h);
            place.run(HyperExpand{v, place.in(x), place.in(post), place.in(comb), n, 4, dim});
            place.fetch(out, v, size_t(n) * 4 * dim);
        });
}

Case scale_bf16() {
    auto x = Random(10).halves(size_t(most) * 8);
    return make_case("ScaleBf16", Values::bits, 0, most, [=](auto& place, int32_t n, auto& out) {
        bf16* v = place.in(x);
        place.run(ScaleBf16{v, n * 8, 0.0441941738f});
        place.fetch(out, v, size_t(n) * 8);
    });
}

}  // namespace

std::vector<Case> dense_cases() {
    return {act_quant(160, 32),
            act_quant(384, 128),
            rope_requant("RopeRequant rotate", Requant::none, true, true),
            rope_requant("RopeRequant fp8", Requant::fp8_32, false, true),
            rope_requant("RopeRequant fp4/32", Requant::fp4_32, false, true),
            rope_requant("RopeRequant fp4/16", Requant::fp4_16, false, true),
            requant_kept(),
            hadamard(8),
            hadamard(128),
            rms_norm(1280),
            head_norm(3, 96),
            head_norm(1, 512),
            linear_fp8(112, 160, most),
            linear_fp8(72, 5120, 300),
            linear_fp8(80, 8192, 65),
            linear_fp8(1576, 96, most),
            linear_bf16(24, 200, most, true),
            linear_bf16(48, 5120, 300, true),
            linear_bf16(32, 512, most, false),
            linear_bf16(1576, 96, most, false),
            grouped_output(3, 32, 128, most),
            grouped_output(2, 64, 4096, 65),
            grouped_output(2, 896, 64, most),
            hyper_mix(160),
            hyper_pre(160),
            hyper_collapse(96),
            hyper_expand(96),
            scale_bf16()};
}

}  // namespace sluice::selftest_detail
