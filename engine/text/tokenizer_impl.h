// What a loaded tokenizer holds. For tokenizer.cpp, which uses it, and tokenizer_file.cpp, which
// fills it.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/tokenizer.h"

namespace sluice {

struct Tokenizer::Impl {
    struct Token {
        std::string text;   // vocabulary string, or content of an added token
        std::string bytes;  // what it decodes to
        bool present = false;
        bool added = false;
    };
    std::vector<Token> tokens;  // by id
    std::unordered_map<std::string, int32_t> added;
    // Added tokens that Hugging Face looks for in the raw text, and those ("normalized") that it
    // looks for in what the others leave.
    AddedTokenFinder first, second;
    PreTokenizer pretokenizer;
    Bpe bpe;
    // Only with ignore_merges: bytes of a whole piece -> its token.
    std::unordered_map<std::string, int32_t> whole_pieces;

    void encode(std::string_view text, std::vector<int32_t>& ids) const;
};

}  // namespace sluice
