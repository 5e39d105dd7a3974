// The inside of a JSON string (RFC 8259), byte by byte: valid UTF-8, no raw control characters,
// escapes as the standard has them, and \u escapes of surrogates only in pairs.
#pragma once

#include <cstdint>

namespace sluice {

enum class TextState : uint8_t {
    dead,    // the byte cannot follow
    closed,  // the byte was the closing quote
    body,    // between characters
    // inside a character of several bytes
    tail_1,
    tail_2,
    tail_3,  // that many continuation bytes are missing
    after_e0,
    after_ed,
    after_f0,
    after_f4,  // the next byte has a range of its own
    escape,    // after a backslash
    // inside \uXXXX
    hex_4,  // no digit yet
    hex_d,  // after a D, which may begin a surrogate
    hex_3,
    hex_2,
    hex_1,  // that many digits are missing
    high_2,
    high_1,  // the same, of a high surrogate
    low_backslash,
    low_u,
    low_4,
    low_3,  // what a high surrogate requires next
};

TextState next(TextState state, uint8_t byte);

// Whether the step between these states, which is not to dead, begins a character. A surrogate pair
// is one character.
inline bool begins_character(TextState from, TextState to) {
    return from == TextState::body && to != TextState::closed;
}

}  // namespace sluice
