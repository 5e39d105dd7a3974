#include "engine/text/json_text.h"

#include <string_view>

namespace sluice {

namespace {

using S = TextState;

S within(uint8_t byte, uint8_t low, uint8_t high, S then) {
    return byte >= low && byte <= high ? then : S::dead;
}

S lead(uint8_t byte) {
    if (byte < 0xc2 || byte > 0xf4) return S::dead;
    if (byte < 0xe0) return S::tail_1;
    if (byte == 0xe0) return S::after_e0;
    if (byte == 0xed) return S::after_ed;
    if (byte < 0xf0) return S::tail_2;
    if (byte == 0xf0) return S::after_f0;
    return byte == 0xf4 ? S::after_f4 : S::tail_3;
}

S in_body(uint8_t byte) {
    if (byte == '"') return S::closed;
    if (byte == '\\') return S::escape;
    if (byte < 0x20) return S::dead;
    return byte < 0x80 ? S::body : lead(byte);
}

S in_escape(uint8_t byte) {
    if (byte == 'u') return S::hex_4;
    constexpr std::string_view simple = "\"\\/bfnrt";
    return simple.find(static_cast<char>(byte)) != simple.npos ? S::body : S::dead;
}

// The value of a hexadecimal digit, or -1.
int digit(uint8_t byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    const int letter = byte | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

S in_hex(S state, uint8_t byte) {
    const int value = digit(byte);
    if (value < 0) return S::dead;
    switch (state) {
        case S::hex_4:
            return value == 0xd ? S::hex_d : S::hex_3;
        case S::hex_d:  // D800 to DBFF: a high surrogate; DC00 to DFFF: a low one without it
            if (value >= 0xc) return S::dead;
            return value >= 8 ? S::high_2 : S::hex_2;
        case S::hex_3:
            return S::hex_2;
        case S::hex_2:
            return S::hex_1;
        case S::hex_1:
            return S::body;
        case S::high_2:
            return S::high_1;
        case S::high_1:
            return S::low_backslash;
        case S::low_4:
            return value == 0xd ? S::low_3 : S::dead;
        default:  // low_3
            return value >= 0xc ? S::hex_2 : S::dead;
    }
}

}  // namespace

TextState next(TextState state, uint8_t byte) {
    switch (state) {
        case S::dead:
        case S::closed:
            return S::dead;
        case S::body:
            return in_body(byte);
        case S::tail_1:
            return within(byte, 0x80, 0xbf, S::body);
        case S::tail_2:
            return within(byte, 0x80, 0xbf, S::tail_1);
        case S::tail_3:
            return within(byte, 0x80, 0xbf, S::tail_2);
        case S::after_e0:  // no overlong forms
            return within(byte, 0xa0, 0xbf, S::tail_1);
        case S::after_ed:  // no surrogates
            return within(byte, 0x80, 0x9f, S::tail_1);
        case S::after_f0:
            return within(byte, 0x90, 0xbf, S::tail_2);
        case S::after_f4:  // at most U+10FFFF
            return within(byte, 0x80, 0x8f, S::tail_2);
        case S::escape:
            return in_escape(byte);
        case S::low_backslash:
            return byte == '\\' ? S::low_u : S::dead;
        case S::low_u:
            return byte == 'u' ? S::low_4 : S::dead;
        default:
            return in_hex(state, byte);
    }
}

}  // namespace sluice
