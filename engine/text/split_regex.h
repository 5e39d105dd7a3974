// One split pattern of a pre-tokenizer, matched by PCRE2 with the meaning that Hugging Face's
// engine (Oniguruma, Unicode) gives it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

// Immutable; any thread, each with its own Scratch.
class SplitRegex {
 public:
    class Scratch;

    // unsupported: the pattern does not compile, or can match an empty text.
    static Result<SplitRegex> compile(std::string_view pattern);
    SplitRegex(SplitRegex&&) noexcept;
    SplitRegex& operator=(SplitRegex&&) noexcept;
    ~SplitRegex();

    // Behaviour "Isolated": appends the matches and the gaps between them to `pieces`, in order.
    // Requires UTF-8. Look-ahead does not see past the text. If the matcher gives up (a pattern
    // that backtracks too much), the rest is one piece, and a warning is logged.
    void split(std::string_view text, Scratch& scratch,
               std::vector<std::string_view>& pieces) const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    explicit SplitRegex(std::unique_ptr<Impl> impl);
};

// Memory of the matcher, reused from call to call.
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
