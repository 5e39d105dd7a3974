// The pre_tokenizer of tokenizer.json: splits text into pieces, whose borders merges do not cross.
#pragma once

#include <string_view>
#include <vector>

#include "engine/text/split_regex.h"
#include "io/error.h"
#include "io/json.h"

namespace sluice {

// Immutable; any thread.
class PreTokenizer {
 public:
    // Accepts ByteLevel alone (without prefix space and without a pattern of its own), or a
    // Sequence that ends with it and begins with Splits (Regex, Isolated, not inverted), each
    // applied to the pieces of the one before. Anything else is unsupported, by name.
    static Result<PreTokenizer> parse(const Json& description);

    // Appends views that together cover `text`. Each byte that is not UTF-8 is a piece of its own,
    // and the text between such bytes is split as separate texts.
    void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
    void split_valid(std::string_view text, SplitRegex::Scratch& scratch,
                     std::vector<std::string_view>& pieces) const;

    std::vector<SplitRegex> splits_;
};

}  // namespace sluice
