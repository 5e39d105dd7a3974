// The data of a loaded tokenizer. For tokenizer_file.cpp, which fills it, and tokenizer.cpp, which
// uses it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/token_index.h"
#include "engine/text/tokenizer.h"

namespace sluice {

struct Tokenizer::Impl {
    struct Token {
        std::string text;   // vocabulary string, or the content of an added token
        std::string bytes;  // what it decodes to
        bool present = false;
        bool added = false;
    };
    std::vector<Token> tokens;  // by id
    std::unordered_map<std::string, int32_t> added;
    // Hugging Face looks for most added tokens in the raw text (`first`), and for "normalized" ones
    // in what is left between these (`second`).
    AddedTokenFinder first, second;
    PreTokenizer pretokenizer;
    Bpe bpe;
    // With ignore_merges only: bytes of a whole piece -> its token.
    std::unordered_map<std::string, int32_t> whole_pieces;

    mutable std::once_flag index_made;
    mutable std::unique_ptr<const TokenIndex> index;

    void encode(std::string_view text, std::vector<int32_t>& ids) const;
};

}  // namespace sluice
