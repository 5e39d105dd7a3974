// Small text helpers for messages: cat("shard ", 7, ": ...") and byte sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "io/error.h"

namespace sluice {

namespace detail {
inline void append(std::string& out, std::string_view text) {
    out += text;
}
inline void append(std::string& out, char c) {
    out += c;
}
template <class T>
requires std::is_arithmetic_v<T>
void append(std::string& out, T value) {
    out += std::to_string(value);
}
}  // namespace detail

template <class... Parts>
std::string cat(const Parts&... parts) {
    std::string out;
    (detail::append(out, parts), ...);
    return out;
}

// "7.3 GiB", "512 B": three digits, binary units.
std::string size_text(uint64_t bytes);

// "7.3GiB", "16G", "16GB", "512M", "1000000": K/M/G/T and KiB/MiB/GiB/TiB are binary, KB/MB/GB/TB
// decimal, case ignored, fractions of a unit allowed, spaces not. Error (usage) names the text.
Result<uint64_t> parse_size(std::string_view text);

// Length in bytes of the valid UTF-8 character at the beginning of `text`; 0 if there is none.
size_t utf8_length(std::string_view text);

// False for code points that move the cursor, start a line or change the writing direction.
bool harmless(uint32_t point);

// A name from a file or a user, made safe to print on one line of a terminal: control characters,
// characters that change the writing direction and invalid UTF-8 become \xNN; cut at 200 bytes.
std::string printable(std::string_view text);

// "Input/output error (EIO)".
std::string errno_text(int number);

}  // namespace sluice
