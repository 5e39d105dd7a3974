// libFuzzer target: a hostile JSON schema, a zero byte, and bytes for its grammar; without a zero
// byte, bytes for any object.
// tests/dev/fuzz.sh builds and runs it.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/text/json_constraint.h"
#include "engine/text/json_schema.h"
#include "engine/text/tokenizer.h"
#include "io/json.h"

using namespace sluice;

namespace {

constexpr int32_t end_id = 1;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

const Tokenizer& shipped() {
    static const Tokenizer loaded = [] {
        const char* path = std::getenv("SLUICE_FUZZ_TOKENIZER");
        require(path != nullptr, "SLUICE_FUZZ_TOKENIZER names a tokenizer.json");
        auto tokenizer = Tokenizer::load(path);
        require(tokenizer.has_value(), "the tokenizer loads");
        return std::move(*tokenizer);
    }();
    return loaded;
}

// Accepted texts are JSON.
void follow(const std::shared_ptr<const JsonGrammar>& grammar, std::string_view bytes) {
    JsonAutomaton automaton(grammar);
    for (size_t at = 0; at < bytes.size(); ++at) {
        if (!automaton.accept(bytes.substr(at, 1))) return;
        if (!automaton.can_end()) continue;
        const auto value = Json::parse(bytes.substr(0, at + 1));
        require(value || value.error().message.find("duplicate key") != std::string::npos,
                "an accepted text is JSON");
    }
}

// Each byte chooses among the allowed tokens: there is always one, and it is accepted.
void choose(const std::shared_ptr<const JsonGrammar>& grammar, std::string_view bytes) {
    const int32_t ends[] = {end_id};
    JsonConstraint constraint(shipped(), ends, grammar);
    JsonAutomaton automaton(grammar);
    TokenMask mask(static_cast<size_t>(shipped().size()));
    for (unsigned char byte : bytes.substr(0, 64)) {
        if (constraint.complete()) return;
        constraint.allowed(mask);
        require(mask.count() > 0, "a token is allowed");
        size_t left = byte * 7919u % mask.count();
        int32_t id = -1;
        mask.each([&](int32_t each) {
            if (left-- == 0) id = each;
        });
        constraint.accept(id);
        if (id != end_id) require(automaton.accept(shipped().bytes(id)), "it is accepted");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view all(reinterpret_cast<const char*>(data), size);
    const size_t zero = all.find('\0');
    auto grammar = any_object_grammar();
    if (zero != all.npos) {
        auto compiled = compile_json_schema(all.substr(0, zero));
        if (!compiled) return 0;
        grammar = *compiled;
    }
    const std::string_view bytes = zero == all.npos ? all : all.substr(zero + 1);
    follow(grammar, bytes);
    choose(grammar, bytes);
    return 0;
}
