// The byte-level alphabet of tokenizer.json: every byte has a printable character, so that any
// bytes can be written as vocabulary strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

char32_t byte_character(uint8_t byte);
// "Ġthe" -> " the"; nothing if a character is outside the alphabet.
std::optional<std::string> bytes_of_vocabulary(std::string_view text);

}  // namespace sluice
