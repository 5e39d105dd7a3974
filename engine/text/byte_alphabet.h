// The byte-level alphabet of tokenizer.json: a printable character for every byte, so that
// vocabulary strings can spell any bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

char32_t byte_character(uint8_t byte);
// "Ġthe" -> " the"; nullopt if a character is outside the alphabet.
std::optional<std::string> bytes_of_vocabulary(std::string_view text);

}  // namespace sluice
