// An answer that is a JSON text of a grammar, whole as soon as it ends by itself.
//
// Control tokens are never allowed, end tokens exactly when the text is complete. Cost of
// allowed(): 10 to 100 us for the usual grammars and 129,000 tokens, up to some ms inside an escape
// or a character that a token has left open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/text/json_automaton.h"
#include "engine/text/token_constraint.h"
#include "engine/text/token_index.h"
#include "engine/text/tokenizer.h"

namespace sluice {

class JsonConstraint : public TokenConstraint {
 public:
    // `tokenizer` must outlive it. The first one for a tokenizer builds its index. A tokenizer has
    // a token for each byte, so there is always a way on.
    JsonConstraint(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                   std::shared_ptr<const JsonGrammar> grammar);

    bool limits() const override { return true; }
    void allowed(TokenMask& mask) override;
    void accept(int32_t token) override;
    bool complete() const override { return ended_ || automaton_.must_end(); }

 private:
    void add_all(TokenMask& mask, const json::Config& from);
    void add_in_string(TokenMask& mask, const json::Config& from);
    void add_in_other_key(TokenMask& mask, const json::Config& from);
    template <class Take>
    void walk(const TokenTrie& trie, const json::Config& from, Take take);

    const Tokenizer* tokenizer_;
    const TokenIndex* index_;
    std::vector<int32_t> end_tokens_;
    JsonAutomaton automaton_;
    bool ended_ = false;
    // By depth of the walk: the configs there, and the frames that they need.
    struct Level {
        json::Configs configs;
        size_t frames = 0;
    };
    std::vector<Level> levels_;
    std::vector<uint32_t> nodes_;  // the same for add_in_other_key()
    TokenMask scratch_;
};

}  // namespace sluice
