// The built-in shapes are those of the releases.
#include "engine/model/model_shape.h"

#include <doctest/doctest.h>

#include "engine/model/config.h"
#include "engine/model/model.h"
#include "tests/support/release_config.h"

using namespace sluice;

static void check_shape(const char* name, const char* published) {
    auto text = shape_config(name);
    REQUIRE(text);
    auto shape = parse_config(*text);
    auto release = parse_config(published);
    REQUIRE_MESSAGE(shape, (shape ? "" : shape.error().message));
    REQUIRE_MESSAGE(release, (release ? "" : release.error().message));
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
    CHECK(shape->token_routed_layers == release->token_routed_layers);
    CHECK(shape->index_topk == release->index_topk);
    CHECK(shape->route_scale == release->route_scale);
}

TEST_CASE("a built-in shape needs the same tensors as the published config.json") {
    check_shape("deepseek-v4.1-flash", test::release_config);
    check_shape("deepseek-v4-flash", test::release_config_v4);
}

TEST_CASE("deepseek-v4-pro: the shape is a model") {
    auto text = shape_config("deepseek-v4-pro");
    REQUIRE(text);
    const auto c = parse_config(*text);
    REQUIRE_MESSAGE(c, (c ? "" : c.error().message));
    CHECK(c->layers == 61);
    CHECK(c->hidden == 7168);
    CHECK(c->experts == 384);
    CHECK(c->heads == 128);
    CHECK(c->rows[0].ratio == 128);
    CHECK(c->rows[1].ratio == 128);
    CHECK(c->rows[2].overlap);
    CHECK(c->rows[3].ratio == 128);
}

TEST_CASE("an unknown shape is refused, and the known ones are named") {
    auto text = shape_config("deepseek-v9");
    REQUIRE_FALSE(text);
    CHECK(text.error().code == Code::usage);
    for (const auto& name : shape_names()) {
        CHECK(text.error().message.find(name) != std::string::npos);
    }
}
