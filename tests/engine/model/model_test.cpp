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

// Of all tensors of one class, and of one layer.
struct Sum {
    uint64_t tensors = 0, bytes = 0;
    void add(const TensorSpec& spec) {
        ++tensors;
        bytes += spec_bytes(spec);
    }
};

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
        bytes[spec.what] += spec_bytes(spec);
        ++tensors;
        if (spec.home == Home::dense || spec.home == Home::unused) backbone += spec_bytes(spec);
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

TEST_CASE("deepseek-v4: bytes and tensors of the release equal the published totals") {
    const auto config = parse_config(test::release_config_v4);
    REQUIRE(config);
    const auto model = find_model("deepseek_v4");
    REQUIRE(model);
    Weights weights;
    std::map<std::string, Sum> classes, layers;
    Sum all;
    for (const TensorSpec& spec : (*model)->describe(*config, weights)) {
        classes[spec.what].add(spec);
        layers[spec.name.substr(0, spec.name.find('.', 7))].add(spec);
        all.add(spec);
    }
    uint64_t expert = 0;
    for (const ExpertShape& part : expert_shapes(*config)) expert += part.shape[0] * part.shape[1];
    CHECK(expert == 13369344u);
    const uint64_t experts = 256 * expert, expert_tensors = 256 * expert_parts;
    CHECK(43 * experts == 147169738752u);
    CHECK(classes["embedding"].bytes == 1059061760u);
    CHECK(classes["head"].bytes == 1059061760u);
    CHECK(classes["experts by token id"].bytes == 18616320u);
    CHECK(all.bytes - 2 * 1059061760u == 6727835868u);

    const auto check_layer = [&](int32_t layer, uint64_t tensors, uint64_t bytes) {
        CAPTURE(layer);
        const Sum& sum = layers["layers." + std::to_string(layer)];
        CHECK(sum.tensors + expert_tensors == tensors);
        CHECK(sum.bytes + experts == bytes);
    };
    for (int32_t layer : {0, 1}) check_layer(layer, 1565, 3566148952u);
    check_layer(2, 1576, 3596055640u);
    for (int32_t layer = 3; layer < 43; layer += 2) check_layer(layer, 1569, 3568596312u);
    for (int32_t layer = 4; layer < 43; layer += 2) check_layer(layer, 1576, 3589851224u);
    // Both releases, without their draft heads: an MTP block, and three DSpark stages.
    CHECK(all.tensors + 43 * expert_tensors == 69187u - 1575);
    CHECK(all.bytes + 43 * experts == 159609485896u - 3593787756u);
    CHECK(all.tensors + 43 * expert_tensors == 72317u - 4705);
    CHECK(all.bytes + 43 * experts == 166878536440u - 10862838300u);
    CHECK((*model)->expert_name({3, 17}, w2_scales) == "layers.3.ffn.experts.17.w2.scale");
}

TEST_CASE("unused classes are listed with their bytes") {
    for (const char* model : {"dsv41-rand-a", "dsv4-rand-a"}) {
        auto engine = test::load_engine(test::model_options(model));
        bool found = false;
        for (const std::string& note : engine->notes()) {
            found = found || note.starts_with("not used: draft head (mtp.*), ");
        }
        CHECK(found);
    }
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
