// The pre_tokenizer of tokenizer.json: text to the pieces that merges do not cross.
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
    // A Sequence of Split (Regex, Isolated, not inverted), each applied to the pieces of the one
    // before, and one ByteLevel; or ByteLevel alone. ByteLevel without prefix space and without
    // its own pattern. Anything else is unsupported, by name.
    static Result<PreTokenizer> parse(const Json& description);

    // Appends views into `text`, which together are `text`. Bytes that are not UTF-8 are a piece
    // each, and the text between them is split as a text of its own.
    void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
    void split_valid(std::string_view text, SplitRegex::Scratch& scratch,
                     std::vector<std::string_view>& pieces) const;

    std::vector<SplitRegex> splits_;
};

}  // namespace sluice
