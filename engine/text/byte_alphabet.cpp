#include "engine/text/byte_alphabet.h"

#include <array>

#include "engine/text/utf8.h"

namespace sluice {
namespace {

// Printable Latin-1 bytes stand for themselves; the 68 others take U+0100, U+0101, ... in order.
bool stands_for_itself(int byte) {
    return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
}

struct Alphabet {
    std::array<char32_t, 256> of_byte{};
    std::array<int, 256 + 68> of_character{};  // -1: not in the alphabet
    Alphabet() {
        of_character.fill(-1);
        char32_t next = 256;
        for (int byte = 0; byte < 256; ++byte) {
            const auto i = static_cast<size_t>(byte);
            of_byte[i] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
            of_character[of_byte[i]] = byte;
        }
    }
};

const Alphabet& alphabet() {
    static const Alphabet table;
    return table;
}

}  // namespace

char32_t byte_character(uint8_t byte) {
    return alphabet().of_byte[byte];
}

std::optional<std::string> bytes_of_vocabulary(std::string_view text) {
    const auto& table = alphabet().of_character;
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_at(text, at);
        if (step.state != Utf8State::whole || step.value >= table.size()) return std::nullopt;
        if (table[step.value] < 0) return std::nullopt;
        out += static_cast<char>(table[step.value]);
        at += step.bytes;
    }
    return out;
}

}  // namespace sluice
