// The built-in shape is that of the release.
#include "engine/model/model_shape.h"

#include <doctest/doctest.h>

#include "engine/model/config.h"
#include "engine/model/model.h"
#include "tests/support/release_config.h"

using namespace sluice;

TEST_CASE("deepseek-v4.1-flash: the shape needs the same tensors as the published config.json") {
    auto text = shape_config("deepseek-v4.1-flash");
    REQUIRE(text);
    auto shape = parse_config(*text);
    auto release = parse_config(test::release_config);
    REQUIRE_MESSAGE(shape, (shape ? "" : shape.error().message));
    REQUIRE(release);
    auto model = find_model(shape->model_type);
    REQUIRE(model);
    Weights shape_weights, release_weights;
    const auto specs = (*model)->describe(*shape, shape_weights);
    const auto wanted = (*model)->describe(*release, release_weights);
    REQUIRE(specs.size() == wanted.size());
    for (size_t i = 0; i < specs.size(); ++i) {
        CAPTURE(specs[i].name);
        CHECK(specs[i].name == wanted[i].name);
        CHECK(specs[i].shape == wanted[i].shape);
        CHECK(specs[i].storage == wanted[i].storage);
    }
    CHECK(shape->experts == release->experts);
    CHECK(shape->top_k == release->top_k);
    CHECK(shape->moe_hidden == release->moe_hidden);
    CHECK(shape->positions_max == release->positions_max);
    CHECK(shape->candidate_source == release->candidate_source);
    CHECK(shape->engram_rows == release->engram_rows);
}

TEST_CASE("an unknown shape is refused, and the known ones are named") {
    auto text = shape_config("deepseek-v9");
    REQUIRE_FALSE(text);
    CHECK(text.error().code == Code::usage);
    for (const auto& name : shape_names()) {
        CHECK(text.error().message.find(name) != std::string::npos);
    }
}
