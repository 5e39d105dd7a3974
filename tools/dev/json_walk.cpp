// Random answers under a JSON schema, for comparison with another validator, and what the masks of
// allowed tokens cost.
//
//     json_walk TOKENIZER.json SCHEMA.json|json COUNT [TOKENS]    texts, a JSON string a line
//     json_walk --accepts SCHEMA.json|json < LINES                1 or 0 for each JSON string
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "engine/text/json_automaton.h"
#include "engine/text/json_constraint.h"
#include "engine/text/tokenizer.h"
#include "io/clock.h"
#include "io/json.h"
#include "tools/answer/answer_format.h"
#include "tools/dev/token_walk.h"

using namespace sluice;

namespace {

constexpr int32_t end_id = 1;

// Passes everything on and notes how long allowed() takes.
class Timed : public TokenConstraint {
 public:
    Timed(TokenConstraint& inner, std::vector<double>& times) : inner_(inner), times_(times) {}
    bool limits() const override { return inner_.limits(); }
    void allowed(TokenMask& mask) override {
        const auto start = Clock::now();
        inner_.allowed(mask);
        times_.push_back(seconds_since(start) * 1e6);
    }
    void accept(int32_t token) override { inner_.accept(token); }
    bool complete() const override { return inner_.complete(); }

 private:
    TokenConstraint& inner_;
    std::vector<double>& times_;
};

int fail_with(const Error& error) {
    std::fprintf(stderr, "json_walk: %s\n", error.message.c_str());
    return 2;
}

int accepts(const std::shared_ptr<const JsonGrammar>& grammar) {
    for (std::string line; std::getline(std::cin, line);) {
        const auto text = Json::parse(line);
        if (!text) return fail_with(text.error());
        JsonAutomaton automaton(grammar);
        const std::string bytes = text->string().value_or("");
        bool fits = true;
        for (char byte : bytes) fits = fits && automaton.accept(std::string_view(&byte, 1));
        std::puts(fits && automaton.can_end() ? "1" : "0");
    }
    return 0;
}

int walk(const Tokenizer& tokenizer, const std::shared_ptr<const JsonGrammar>& grammar,
         uint64_t count, size_t tokens) {
    const TokenWalk walk(tokenizer, end_id);
    const auto start = Clock::now();
    tokenizer.index();
    std::fprintf(stderr, "index: %.1f ms\n", seconds_since(start) * 1e3);
    std::vector<double> times;
    for (uint64_t seed = 0; seed < count; ++seed) {
        const int32_t ends[] = {end_id};
        JsonConstraint constraint(tokenizer, ends, grammar);
        Timed timed(constraint, times);
        const auto text = walk.run(timed, seed, tokens);
        if (!text) return fail_with({Code::mismatch, "an answer did not end"});
        std::printf("%s\n", json_quote(*text).c_str());
    }
    std::sort(times.begin(), times.end());
    if (times.empty()) return 0;
    std::fprintf(stderr, "%zu masks: median %.1f us, 99 %% %.1f us, most %.1f us\n", times.size(),
                 times[times.size() / 2], times[times.size() * 99 / 100], times.back());
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    const std::string first = count > 2 ? arguments[1] : "";
    if (count < 3 || (first != "--accepts" && count < 4)) {
        std::fputs("usage: json_walk TOKENIZER.json SCHEMA.json|json COUNT [TOKENS]\n", stderr);
        return 2;
    }
    const auto format = format_of(arguments[2]);
    if (!format) return fail_with(format.error());
    const auto grammar = answer_grammar(*format);
    if (!grammar) return fail_with(grammar.error());
    if (first == "--accepts") return accepts(*grammar);
    const auto tokenizer = Tokenizer::load(first);
    if (!tokenizer) return fail_with(tokenizer.error());
    const size_t tokens = count > 4 ? std::strtoull(arguments[4], nullptr, 10) : 200;
    return walk(*tokenizer, *grammar, std::strtoull(arguments[3], nullptr, 10), tokens);
}
