#include "kernels/numerics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

using namespace sluice;

namespace {

const float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

double e4m3_by_definition(int code) {
    int exponent = (code >> 3) & 15, mantissa = code & 7;
    double value =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return code & 128 ? -value : value;
}

// Distance in units of the last place of the fp32 nearest to `want`.
double ulps(float got, double want) {
    float near = float(std::fabs(want));
    double unit = double(std::nextafter(near, infinity)) - near;
    return std::fabs(got - want) / unit;
}

}  // namespace

TEST_CASE("numerics: bf16 rounds to nearest even and keeps non-finite values") {
    CHECK(to_bf16(1.0f).bits == 0x3f80);
    CHECK(to_bf16(float_of(0x3f808000)).bits == 0x3f80);  // tie, even below
    CHECK(to_bf16(float_of(0x3f818000)).bits == 0x3f82);  // tie, even above
    CHECK(to_bf16(float_of(0x3f808001)).bits == 0x3f81);
    CHECK(to_bf16(-0.0f).bits == 0x8000);
    CHECK(to_bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
    CHECK(to_bf16(infinity).bits == 0x7f80);
    CHECK(std::isnan(round_bf16(float_of(0x7f800001))));  // its payload is in the lower half
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        float x = to_float(bf16{uint16_t(bits)});
        if (!std::isnan(x)) REQUIRE(to_bf16(x).bits == bits);
    }
}

TEST_CASE("numerics: E8M0") {
    for (int e = 0; e < 255; ++e)
        CHECK(e8m0_to_float(uint8_t(e)) == float(std::ldexp(1.0, e - 127)));
    CHECK(std::isnan(e8m0_to_float(255)));
    CHECK(e8m0_ceil(1.0f) == 127);
    CHECK(e8m0_ceil(std::nextafter(1.0f, 2.0f)) == 128);
    CHECK(e8m0_ceil(0.75f) == 127);
}

TEST_CASE("numerics: every E4M3 code") {
    for (int c = 0; c < 256; ++c) {
        float value = e4m3_to_float(uint8_t(c));
        if ((c & 0x7f) == 0x7f) {
            CHECK(std::isnan(value));
            continue;
        }
        CHECK(value == e4m3_by_definition(c));
        CHECK(std::signbit(value) == (c >= 128));
        CHECK(e4m3_to_int(uint8_t(c)) == value * 512);
        CHECK(float_to_e4m3(value) == c);
    }
}

TEST_CASE("numerics: rounding to E4M3 takes the nearest code, ties to the even one") {
    for (int c = 0; c < 0x7e; ++c) {
        float low = e4m3_to_float(uint8_t(c)), high = e4m3_to_float(uint8_t(c + 1));
        float middle = (low + high) / 2;
        CHECK(float_to_e4m3(middle) == c + (c & 1));
        CHECK(float_to_e4m3(std::nextafter(middle, 0.0f)) == c);
        CHECK(float_to_e4m3(std::nextafter(middle, 500.0f)) == c + 1);
        CHECK(float_to_e4m3(-middle) == (0x80 | (c + (c & 1))));
    }
    CHECK(float_to_e4m3(-0.0f) == 0x80);
    CHECK(float_to_e4m3(std::numeric_limits<float>::denorm_min()) == 0);
}

TEST_CASE("numerics: E2M1") {
    const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int c = 0; c < 16; ++c) {
        float want = (c & 8) ? -values[c & 7] : values[c & 7];
        CHECK(e2m1_to_twice(uint8_t(c)) == 2 * want);
        CHECK(round_e2m1(want) == want);
        CHECK(std::signbit(round_e2m1(want)) == ((c & 8) != 0));
    }
    for (int c = 0; c < 7; ++c) {
        float middle = (values[c] + values[c + 1]) / 2;
        CHECK(round_e2m1(middle) == values[c + (c & 1)]);
        CHECK(round_e2m1(std::nextafter(middle, 0.0f)) == values[c]);
        CHECK(round_e2m1(std::nextafter(-middle, -9.0f)) == -values[c + 1]);
    }
}

TEST_CASE("numerics: exp is within 1.5 ulp everywhere and correct at its ends") {
    double worst = 0;
    for (uint32_t step = 0; step < 3'000'000; ++step) {
        float x = float(-104.5 + 193.5 * step / 3e6);
        double want = std::exp(double(x));
        if (want > std::numeric_limits<float>::max()) continue;
        worst = std::max(worst, ulps(exp_f32(x), want));
    }
    CHECK(worst <= 1.5);
    CHECK(exp_f32(0.0f) == 1.0f);
    CHECK(exp_f32(-0.0f) == 1.0f);
    CHECK(exp_f32(-104.0f) == 0.0f);
    CHECK(exp_f32(-infinity) == 0.0f);
    CHECK(exp_f32(-87.5f) > 0.0f);
    CHECK(exp_f32(-103.0f) > 0.0f);  // subnormal, not flushed
    CHECK(exp_f32(88.72f) < infinity);
    CHECK(exp_f32(89.0f) == infinity);
    CHECK(exp_f32(infinity) == infinity);
    CHECK(std::isnan(exp_f32(nan_value)));
}

TEST_CASE("numerics: sigmoid, silu, log1p and softplus") {
    for (int i = -4000; i <= 4000; ++i) {
        float x = float(i) / 100;
        double e = std::exp(-double(x));
        CHECK(ulps(sigmoid_f32(x), 1 / (1 + e)) <= 4);
        if (x != 0) CHECK(ulps(std::fabs(silu_f32(x)), std::fabs(x / (1 + e))) <= 4);
        CHECK(ulps(softplus_f32(x), std::log1p(std::exp(double(x)))) <= 6);
    }
    for (int i = 0; i <= 1000; ++i) {
        float t = float(i) / 1000;
        CHECK(ulps(log1p_f32(t), std::log1p(double(t))) <= 4);
    }
    CHECK(softplus_f32(21.5f) == 21.5f);
    CHECK(softplus_f32(-infinity) == 0.0f);
    CHECK(sigmoid_f32(-infinity) == 0.0f);
    CHECK(sigmoid_f32(infinity) == 1.0f);
    CHECK(std::isnan(sigmoid_f32(nan_value)));
    CHECK(std::isnan(silu_f32(nan_value)));
    CHECK(std::isnan(softplus_f32(nan_value)));
}
