#include "engine/text/json_constraint.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/text/json_schema.h"
#include "engine/text/sampler.h"
#include "io/json.h"
#include "tests/support/json_validator.h"
#include "tests/support/random.h"
#include "tests/support/tokenizers.h"
#include "tools/dev/token_walk.h"

using namespace sluice;

namespace {

constexpr int32_t end_id = 1;  // of both test tokenizers
constexpr int32_t ends[] = {end_id};

std::shared_ptr<const JsonGrammar> grammar_of(const std::string& schema) {
    auto grammar = compile_json_schema(schema);
    REQUIRE_MESSAGE(grammar, (grammar ? "" : grammar.error().message));
    return *grammar;
}

std::unique_ptr<JsonConstraint> constraint(const Tokenizer& tokenizer,
                                           std::shared_ptr<const JsonGrammar> grammar) {
    return std::make_unique<JsonConstraint>(tokenizer, ends, std::move(grammar));
}

// A schema of about `budget` parts.
std::string random_schema(test::Random& random, int budget, bool recursive) {
    const auto inner = [&] { return random_schema(random, budget / 2, recursive); };
    const auto number = [&](int count) { return std::to_string(random.below(count)); };
    const int kind = random.below(budget > 1 ? 11 : 7);
    switch (kind) {
        case 0:
            return R"({"type": ["integer", "boolean"]})";
        case 1:
            return R"({"type": "number", "minimum": 0})";
        case 2:
            return R"({"type": "string", "minLength": )" + number(4) + R"(, "maxLength": )" +
                   std::to_string(4 + random.below(30)) + "}";
        case 3:
            return R"({"enum": ["a", "ab", 1, 12, {"k": [null]}, "\u00e9\n"]})";
        case 4:
            return R"({"type": "integer", "minimum": -5, "maximum": )" + number(200) + "}";
        case 5:
            return recursive ? R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})" : "true";
        case 6:
            return R"({"type": "string"})";
        case 7:
            return R"({"anyOf": [)" + inner() + ", " + inner() + "]}";
        case 8:
            return R"({"type": "array", "items": )" + inner() + R"(, "minItems": )" + number(3) +
                   R"(, "maxItems": )" + std::to_string(2 + random.below(4)) + "}";
        default:
            return R"({"type": "object", "properties": {"a": )" + inner() + R"(, "b\"c": )" +
                   inner() + R"(, "ab": {"type": "null"}}, "required": [)" +
                   (random.below(2) ? R"("b\"c"])" : "]") +
                   (kind == 9 ? R"(, "additionalProperties": {"type": "integer"}})" : "}");
    }
}

// Every token one by one.
TokenMask tried(const JsonAutomaton& automaton, const Tokenizer& tokenizer) {
    TokenMask mask(static_cast<size_t>(tokenizer.size()));
    JsonAutomaton trial = automaton;
    for (int32_t id = 0; id < tokenizer.size(); ++id) {
        if (tokenizer.is_added(id) || tokenizer.bytes(id).empty()) continue;
        if (!trial.accept(tokenizer.bytes(id))) continue;
        mask.add(id);
        trial = automaton;
    }
    if (automaton.can_end()) mask.add(end_id);
    return mask;
}

// Follows the walk with an automaton of its own and compares the masks.
class Checked : public TokenConstraint {
 public:
    Checked(const Tokenizer& tokenizer, const std::shared_ptr<const JsonGrammar>& grammar)
        : tokenizer_(tokenizer), inner_(constraint(tokenizer, grammar)), automaton_(grammar) {}
    bool limits() const override { return true; }
    void allowed(TokenMask& mask) override {
        inner_->allowed(mask);
        const bool same = mask == tried(automaton_, tokenizer_);
        REQUIRE(same);
        ++compared;
    }
    void accept(int32_t token) override {
        inner_->accept(token);
        if (token != end_id) REQUIRE(automaton_.accept(tokenizer_.bytes(token)));
    }
    bool complete() const override { return inner_->complete(); }
    int compared = 0;

 private:
    const Tokenizer& tokenizer_;
    std::unique_ptr<JsonConstraint> inner_;
    JsonAutomaton automaton_;
};

}  // namespace

TEST_CASE("json constraint: the mask is what trying every token gives") {
    int compared = 0;
    const std::pair<const Tokenizer*, uint64_t> parts[] = {{&test::random_tokenizer(), 300},
                                                           {&test::tiny_tokenizer(), 40}};
    for (const auto& [tokenizer, seeds] : parts) {
        const TokenWalk walk(*tokenizer, end_id);
        for (uint64_t seed = 0; seed < seeds; ++seed) {
            test::Random random(seed);
            const std::string schema = random_schema(random, 8, true);
            CAPTURE(schema);
            const auto grammar = compile_json_schema(schema);
            if (!grammar) continue;  // such as: true or a reference to itself
            Checked checked(*tokenizer, *grammar);
            REQUIRE(walk.run(checked, seed, 25));
            compared += checked.compared;
        }
    }
    CHECK(compared > 4000);
}

TEST_CASE("json constraint: random walks end in texts that are valid") {
    const Tokenizer& tokenizer = test::tiny_tokenizer();
    const TokenWalk walk(tokenizer, end_id);
    int valid = 0, repeated_keys = 0;
    for (uint64_t seed = 0; seed < 1500; ++seed) {
        test::Random random(seed + 1000);
        const std::string schema = random_schema(random, 10, seed % 2);
        CAPTURE(schema);
        const auto grammar = compile_json_schema(schema);
        if (!grammar) continue;
        const auto made = constraint(tokenizer, *grammar);
        const auto text = walk.run(*made, seed, 60);
        REQUIRE(text);
        CAPTURE(*text);
        const auto value = Json::parse(*text);
        if (!value) {  // objects with additional properties make no promise on these
            REQUIRE(value.error().message.find("duplicate key") != std::string::npos);
            ++repeated_keys;
            continue;
        }
        REQUIRE(test::JsonValidator(Json::parse(schema).value()).valid(*value));
        ++valid;
    }
    CHECK(valid > 1200);
    CHECK(repeated_keys < 100);
}

TEST_CASE("json constraint: any object by random walks") {
    for (const Tokenizer* tokenizer : {&test::tiny_tokenizer(), &test::random_tokenizer()}) {
        const TokenWalk walk(*tokenizer, end_id);
        for (uint64_t seed = 0; seed < 200; ++seed) {
            const auto made = constraint(*tokenizer, any_object_grammar());
            const auto text = walk.run(*made, seed, 80);
            REQUIRE(text);
            CAPTURE(*text);
            const auto value = Json::parse(*text);
            if (value) CHECK(value->is_object());
            if (!value) CHECK(value.error().message.find("duplicate key") != std::string::npos);
        }
    }
}

TEST_CASE("json constraint: control tokens never, end tokens when the text can end") {
    const Tokenizer& tokenizer = test::tiny_tokenizer();
    const auto made = constraint(tokenizer, grammar_of(R"({"type": "integer"})"));
    TokenMask mask(static_cast<size_t>(tokenizer.size()));
    made->allowed(mask);
    for (int32_t id = 0; id < tokenizer.size(); ++id)
        if (tokenizer.is_added(id)) CHECK(!mask.has(id));
    made->accept(tokenizer.encode("7").front());
    made->allowed(mask);
    CHECK(mask.has(end_id));
    CHECK(!made->complete());
    made->accept(end_id);
    CHECK(made->complete());
    made->allowed(mask);
    CHECK(mask.count() == 0);
}

TEST_CASE("json constraint: complete with the last byte") {
    const Tokenizer& tokenizer = test::tiny_tokenizer();
    const auto made = constraint(tokenizer, any_object_grammar());
    for (int32_t id : tokenizer.encode("{\"a\": [1, 2]}")) {
        CHECK(!made->complete());
        made->accept(id);
    }
    CHECK(made->complete());
}

TEST_CASE("json constraint: sampling under it repeats with the seed") {
    const Tokenizer& tokenizer = test::tiny_tokenizer();
    const auto text = [&](uint64_t seed) {
        const std::string schema =
            R"({"type": "array", "items": {"type": "string", "maxLength": 8}, "minItems": 3})";
        const auto made = constraint(tokenizer, grammar_of(schema));
        SamplerOptions options;
        options.seed = seed;
        Sampler sampler(options);
        TokenMask mask(static_cast<size_t>(tokenizer.size()));
        std::vector<float> logits(static_cast<size_t>(tokenizer.size()) + 64);
        test::Random random(5);
        std::vector<int32_t> ids;
        while (!made->complete()) {
            for (float& logit : logits) logit = random.normal();
            made->allowed(mask);
            ids.push_back(sampler.choose(logits, SamplerContext{ids, 0, &mask}).value());
            made->accept(ids.back());
        }
        return tokenizer.decode(ids);
    };
    CHECK(text(1) == text(1));
    CHECK(text(1) != text(2));
    CHECK(Json::parse(text(3)));
}

TEST_CASE("either constraint: what several allow together until they part") {
    const Tokenizer& tokenizer = test::tiny_tokenizer();
    const auto size = static_cast<size_t>(tokenizer.size());
    const int32_t brace = tokenizer.encode("{").front(), letter = tokenizer.encode("a").front();
    const auto make = [&] {
        std::vector<std::unique_ptr<TokenConstraint>> both;
        both.push_back(constraint(tokenizer, any_object_grammar()));
        both.push_back(std::make_unique<ForcedPrefix>(std::vector<int32_t>{letter, brace}));
        return EitherConstraint(std::move(both), size);
    };
    TokenMask mask(size);
    EitherConstraint object = make();
    object.allowed(mask);
    CHECK(mask.has(brace));
    CHECK(mask.has(letter));
    CHECK(!mask.has(tokenizer.encode("b").front()));
    object.accept(brace);
    object.allowed(mask);
    CHECK(!mask.has(letter));
    CHECK(!object.complete());
    object.accept(tokenizer.encode("}").front());
    CHECK(object.complete());
    EitherConstraint prefix = make();
    prefix.accept(letter);
    prefix.allowed(mask);
    CHECK(mask.count() == 1);
    prefix.accept(brace);
    CHECK(!prefix.limits());
    CHECK(!prefix.complete());
}

TEST_CASE("forced prefix: its ids and then anything, or another constraint") {
    TokenMask mask(300);
    ForcedPrefix free_after({7, 299});
    CHECK(free_after.limits());
    free_after.allowed(mask);
    CHECK(mask.count() == 1);
    CHECK(mask.has(7));
    free_after.accept(7);
    free_after.allowed(mask);
    CHECK(mask.has(299));
    free_after.accept(299);
    CHECK(!free_after.limits());
    CHECK(!free_after.complete());
    free_after.allowed(mask);
    CHECK(mask.count() == 300);

    const Tokenizer& tokenizer = test::tiny_tokenizer();
    TokenMask tokens(static_cast<size_t>(tokenizer.size()));
    ForcedPrefix then_json({5}, constraint(tokenizer, any_object_grammar()));
    then_json.accept(5);
    CHECK(then_json.limits());
    then_json.allowed(tokens);
    CHECK(tokens.has(tokenizer.encode("{").front()));
    CHECK(!tokens.has(tokenizer.encode("a").front()));
    for (int32_t id : tokenizer.encode("{}")) then_json.accept(id);
    CHECK(then_json.complete());
}
