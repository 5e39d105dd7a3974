// The description of a model accounts for every byte of the release; rotary frequencies.
#include "engine/model/model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "engine/model/rope.h"
#include "tests/support/models.h"
#include "tests/support/release_config.h"

namespace sluice {
namespace {

uint64_t bytes_of(const TensorSpec& spec) {
    uint64_t bytes = spec.storage == Storage::f32 ? 4 : spec.storage == Storage::bf16 ? 2 : 1;
    for (uint64_t size : spec.shape) bytes *= size;
    return bytes;
}

}  // namespace

TEST_CASE("bytes by class of the release equal the published totals") {
    const auto config = parse_config(test::release_config);
    REQUIRE(config);
    const auto model = find_model("deepseek_v41");
    REQUIRE(model);
    Weights weights;
    std::map<std::string, uint64_t> bytes;
    uint64_t tensors = 0, backbone = 0;
    for (const TensorSpec& spec : (*model)->describe(*config, weights)) {
        bytes[spec.what] += bytes_of(spec);
        ++tensors;
        if (spec.home == Home::dense || spec.home == Home::unused) backbone += bytes_of(spec);
    }
    CHECK(bytes["Engram tables"] == 202758032400u);
    CHECK(bytes["Engram projections"] == 315043840u);
    CHECK(bytes["attention"] == 5069721600u);
    CHECK(bytes["shared experts"] == 1416960000u);
    CHECK(bytes["router"] + bytes["router bias for images"] == 157409280u);
    CHECK(bytes["hyper-connections"] == 157295040u);
    CHECK(bytes["compressor"] == 36704256u);
    CHECK(bytes["indexer"] == 45130752u);
    CHECK(bytes["embedding"] == 1323827200u);
    CHECK(bytes["head"] == 1323827200u);
    CHECK(backbone - bytes["head"] == 7199094208u);

    uint64_t expert = 0;
    for (const ExpertShape& part : expert_shapes(*config)) expert += part.shape[0] * part.shape[1];
    CHECK(expert == 18800640u);
    // All 96,085 except 2401 of the draft head and 266 for images.
    CHECK(tensors + 40 * 384 * expert_parts == 96085u - 2401 - 263 - 3);
    CHECK((*model)->expert_name({3, 17}, w2_scales) == "layers.3.ffn.experts.17.w2.scale");
}

TEST_CASE("unused classes are listed with their bytes") {
    auto engine = test::load_engine(test::model_options("dsv41-rand-a"));
    bool found = false;
    for (const std::string& note : engine->notes()) {
        found = found || note.starts_with("not used: draft head (mtp.*), ");
    }
    CHECK(found);
}

TEST_CASE("rotary frequencies with and without YaRN") {
    const auto plain = rope_frequencies(10000, 64);
    REQUIRE(plain.size() == 32);
    CHECK(plain[0] == 1.0f);
    CHECK(plain[16] == doctest::Approx(0.01).epsilon(1e-6));
    const auto yarn = yarn_frequencies(160000, 64, {16, 32, 1, 65536});
    const std::map<int, double> known = {{14, 0.005286856},  {15, 0.003635539}, {16, 0.002265625},
                                         {17, 0.001396801},  {20, 0.000296978}, {24, 1.953125e-05},
                                         {25, 5.372312e-06}, {31, 5.680529e-07}};
    for (auto [i, value] : known) {
        CAPTURE(i);
        CHECK(yarn[i] == doctest::Approx(value).epsilon(2e-6));
    }
    const auto base = rope_frequencies(160000, 64);
    for (int i = 0; i <= 15; ++i) CHECK(yarn[i] == base[i]);
    for (int i = 25; i < 32; ++i) CHECK(yarn[i] == base[i] / 16);
}

TEST_CASE("rotary tables: angles in fp32, negative positions harmless") {
    const std::vector<float> frequencies = {1.0f, 0.3f};
    float cosines[6], sines[6];
    fill_rope(frequencies, -1, 3, cosines, sines);
    CHECK(cosines[0] == 1.0f);
    CHECK(sines[1] == 0.0f);
    CHECK(cosines[2] == 1.0f);
    CHECK(cosines[4] == static_cast<float>(std::cos(1.0)));
    CHECK(sines[5] == static_cast<float>(std::sin(static_cast<double>(0.3f))));
}

}  // namespace sluice
