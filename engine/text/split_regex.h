// One split pattern of a pre-tokenizer, matched by PCRE2 with the meaning Hugging Face's engine
// (Oniguruma, Unicode) gives it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

// The pattern in PCRE2's words. Both engines agree on the subset accepted here: literals, escaped
// punctuation, \r \n \t, \s \S \d \D, \p{..} and \P{..} of general categories, classes of these
// and of ranges, groups (..) (?:..), look-ahead (?=..) (?!..), | and greedy or lazy quantifiers. \s
// is spelled out (PCRE2 counts U+180E as a space). Anything else is unsupported, by name.
Result<std::string> translate_split_pattern(std::string_view pattern);

// Immutable; any thread, each with its own Scratch.
class SplitRegex {
 public:
    class Scratch;

    // unsupported: the pattern does not compile, or can match nothing at all.
    static Result<SplitRegex> compile(std::string_view pattern);
    SplitRegex(SplitRegex&&) noexcept;
    SplitRegex& operator=(SplitRegex&&) noexcept;
    ~SplitRegex();

    // Behaviour "Isolated": matches and the gaps between them, in order, appended to `pieces`.
    // Requires UTF-8. Look-around does not see past the text. If the matcher gives up (a pattern
    // that backtracks without end), the rest is one piece, and a warning is logged.
    void split(std::string_view text, Scratch& scratch,
               std::vector<std::string_view>& pieces) const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    explicit SplitRegex(std::unique_ptr<Impl> impl);
};

// The matcher's memory, reused from call to call.
class SplitRegex::Scratch {
 public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

 private:
    friend class SplitRegex;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
