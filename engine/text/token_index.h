// What constrained decoding needs to know of a tokenizer: its ordinary tokens by their bytes.
//
// Immutable; any thread. Tokenizer::index() makes it at its first call (0.1 s for 129,000 tokens).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/text/token_mask.h"
#include "engine/text/token_trie.h"

namespace sluice {

class TokenIndex {
 public:
    // `size`: the largest id + 1. Entries are ordinary tokens with at least one byte; tags are not
    // used.
    TokenIndex(size_t size, const std::vector<TokenTrie::Entry>& entries);

    size_t size() const { return size_; }
    const TokenTrie& all() const { return all_; }

    // Adds the tokens that, between two characters of a JSON string, stay inside the string and
    // begin at most `characters` characters.
    void add_inside(TokenMask& mask, size_t characters) const;
    // Those that close the string: what follows the quote. Tag: the characters before the quote.
    const TokenTrie& closing() const { return closing_; }

 private:
    void add_to_string(const TokenTrie::Entry& entry, std::vector<TokenTrie::Entry>& closing);

    size_t size_;
    TokenTrie all_, closing_;
    TokenMask inside_;
    std::vector<std::vector<int32_t>> inside_by_characters_;
};

}  // namespace sluice
