// Strict UTF-8, one character at a time: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

enum class Utf8State {
    whole,       // a complete character
    broken,      // bytes that cannot begin a character
    unfinished,  // the text ends inside a possible character
};

struct Utf8Step {
    Utf8State state;
    size_t bytes;    // >= 1: the character, or the longest prefix of a possible one
    char32_t value;  // if whole
};

// Requires at < text.size().
Utf8Step utf8_at(std::string_view text, size_t at);
// Requires a scalar value: at most U+10FFFF, no surrogate.
void append_utf8(std::string& out, char32_t value);
// Length of the longest prefix of `text` that is valid UTF-8.
size_t utf8_prefix(std::string_view text);

}  // namespace sluice
