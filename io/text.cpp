#include "io/text.h"

#include <array>
#include <cstring>
#include <limits>

#include "io/format.h"

namespace sluice {

namespace {

constexpr std::array<const char*, 7> binary_units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
constexpr size_t printable_bytes_max = 200;

__extension__ using Wide = unsigned __int128;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Bytes per unit; 0 if the unit is unknown.
uint64_t unit_bytes(std::string_view unit) {
    std::string name;
    for (char c : unit) name += lower(c);
    if (name.empty() || name == "b") return 1;
    const size_t power = std::string_view("kmgt").find(name[0]);
    if (power == std::string_view::npos) return 0;
    const std::string_view rest = std::string_view(name).substr(1);
    uint64_t base = 0;
    if (rest.empty() || rest == "ib") base = 1024;
    if (rest == "b") base = 1000;
    uint64_t bytes = base;
    for (size_t i = 0; i < power; ++i) bytes *= base;
    return bytes;
}

uint32_t code_point(std::string_view character) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(character[i]); };
    switch (character.size()) {
        case 1:
            return byte(0);
        case 2:
            return (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
        case 3:
            return (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
        default:
            return (byte(0) & 0x07u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 |
                   (byte(3) & 0x3fu);
    }
}

}  // namespace

bool harmless(uint32_t point) {
    if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return false;
    if (point == 0x200e || point == 0x200f || point == 0x061c) return false;
    if (point >= 0x2028 && point <= 0x202e) return false;
    return point < 0x2066 || point > 0x2069;
}

std::string size_text(uint64_t bytes) {
    if (bytes < 1024) return cat(bytes, " B");
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < binary_units.size()) {
        value /= 1024;
        ++unit;
    }
    return formatted("{:.3g} {}", value, binary_units[unit]);
}

Result<uint64_t> parse_size(std::string_view text) {
    const auto refuse = [&](const char* why) {
        return fail(Code::usage, cat("size '", printable(text), "': ", why,
                                     " (examples: 512M, 7.3GiB, 16GB, 1000000)"));
    };
    size_t at = 0;
    Wide whole = 0;
    for (; at < text.size() && is_digit(text[at]); ++at) {
        whole = whole * 10 + static_cast<uint32_t>(text[at] - '0');
        if (whole > std::numeric_limits<uint64_t>::max()) return refuse("too large");
    }
    if (at == 0) return refuse("must begin with a digit");
    Wide fraction = 0, fraction_scale = 1;
    const bool has_fraction = at < text.size() && text[at] == '.';
    if (has_fraction) {
        const size_t begin = ++at;
        for (; at < text.size() && is_digit(text[at]); ++at) {
            if (fraction_scale >= 1'000'000'000'000) continue;  // finer than one byte per TiB
            fraction = fraction * 10 + static_cast<uint32_t>(text[at] - '0');
            fraction_scale *= 10;
        }
        if (at == begin) return refuse("a digit must follow the decimal point");
    }
    const uint64_t unit = unit_bytes(text.substr(at));
    if (unit == 0) return refuse("unknown unit");
    if (has_fraction && unit == 1) return refuse("a fraction of a byte");
    const Wide bytes = whole * unit + fraction * unit / fraction_scale;
    if (bytes > std::numeric_limits<uint64_t>::max()) return refuse("too large");
    return static_cast<uint64_t>(bytes);
}

size_t utf8_length(std::string_view text) {
    if (text.empty()) return 0;
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t first = byte(0);
    if (first < 0x80) return 1;
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
    }
    // Overlong forms, surrogates and code points past U+10FFFF.
    if (first == 0xe0 && byte(1) < 0xa0) return 0;
    if (first == 0xed && byte(1) > 0x9f) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;
    return length;
}

std::string printable(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    size_t cut = 0;  // up to here the dots still fit
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        std::string piece(text.substr(0, length == 0 ? 1 : length));
        text.remove_prefix(piece.size());
        if (length == 0 || !harmless(code_point(piece))) {
            std::string escaped;
            for (char c : piece) {
                const auto value = static_cast<uint8_t>(c);
                escaped += {'\\', 'x', digits[value >> 4], digits[value & 15]};
            }
            piece = escaped;
        }
        if (out.size() + piece.size() > printable_bytes_max) return out.substr(0, cut) + "...";
        out += piece;
        if (out.size() + 3 <= printable_bytes_max) cut = out.size();
    }
    return out;
}

std::string errno_text(int number) {
    const char* words = strerrordesc_np(number);
    const char* name = strerrorname_np(number);
    if (words == nullptr || name == nullptr) return cat("error ", number);
    return cat(words, " (", name, ")");
}

}  // namespace sluice
