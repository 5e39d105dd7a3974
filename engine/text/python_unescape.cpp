// Source of python_constants.h: the escapes of a string literal.
#include <charconv>

#include "engine/text/python_constants.h"
#include "engine/text/utf8.h"
#include "io/text.h"

namespace sluice {

namespace {

tl::unexpected<Error> unusable(std::string_view what) {
    return fail(Code::unsupported, std::string(what));
}

// Appends the character of `digits` in `base`.
Result<void> append_number(std::string& out, std::string_view digits, int base) {
    unsigned value = 0;
    const char* end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, value, base);
    if (digits.empty() || read.ec != std::errc() || read.ptr != end)
        return unusable("an escape without its digits");
    if (value >= 0xd800 && value < 0xe000) return unusable("a surrogate in an escape");
    if (value > 0x10ffff) return unusable("an escape beyond U+10FFFF");
    append_utf8(out, value);
    return {};
}

size_t octal_digits(std::string_view text) {
    size_t count = 0;
    while (count < 3 && count < text.size() && text[count] >= '0' && text[count] <= '7') ++count;
    return count;
}

}  // namespace

Result<std::string> python_unescape(std::string_view text) {
    constexpr std::string_view letters = "\\'\"abfnrtv", values = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        const char c = text[++i];
        const size_t hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        const size_t octal = octal_digits(text.substr(i));
        if (c == '\n') continue;  // the line goes on
        if (c == 'N') return unusable("the escape \\N, a character by name, is not supported");
        if (const size_t at = letters.find(c); at != std::string_view::npos) {
            out += values[at];
        } else if (hex > 0) {
            const std::string_view digits = text.substr(i + 1, hex);
            if (digits.size() != hex) return unusable("an escape without its digits");
            if (auto ok = append_number(out, digits, 16); !ok) return tl::unexpected(ok.error());
            i += hex;
        } else if (octal > 0) {
            if (auto ok = append_number(out, text.substr(i, octal), 8); !ok)
                return tl::unexpected(ok.error());
            i += octal - 1;
        } else {
            out += {'\\', c};  // Python keeps both
        }
    }
    return out;
}

}  // namespace sluice
