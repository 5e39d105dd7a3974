// Translates a split pattern of tokenizer.json, written for Hugging Face's engine (Oniguruma), to
// PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

// Accepts the subset on which both engines agree: literals, escaped punctuation, \r \n \t,
// \s \S \d \D, \p{..} and \P{..} of general categories, classes of these and of ranges, groups
// (..) (?:..), look-ahead (?=..) (?!..), | and greedy or lazy quantifiers. \s is spelled out (PCRE2
// counts U+180E as a space). Anything else is unsupported: the error quotes the pattern and the
// part.
Result<std::string> translate_split_pattern(std::string_view pattern);

}  // namespace sluice
