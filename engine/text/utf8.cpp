#include "engine/text/utf8.h"

namespace sluice {
namespace {

// What a lead byte announces: the total number of bytes, 0 for a byte that cannot lead, and the
// range of the second byte (which excludes overlong forms, surrogates and values above U+10FFFF).
struct Lead {
    int bytes;
    unsigned char low, high;
};

Lead lead_of(unsigned char byte) {
    if (byte < 0x80) return {1, 0, 0};
    if (byte < 0xc2) return {0, 0, 0};
    if (byte < 0xe0) return {2, 0x80, 0xbf};
    if (byte == 0xe0) return {3, 0xa0, 0xbf};
    if (byte == 0xed) return {3, 0x80, 0x9f};
    if (byte < 0xf0) return {3, 0x80, 0xbf};
    if (byte == 0xf0) return {4, 0x90, 0xbf};
    if (byte < 0xf4) return {4, 0x80, 0xbf};
    if (byte == 0xf4) return {4, 0x80, 0x8f};
    return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_at(std::string_view text, size_t at) {
    auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const Lead lead = lead_of(byte(0));
    if (lead.bytes == 0) return {Utf8State::broken, 1, 0};
    if (lead.bytes == 1) return {Utf8State::whole, 1, byte(0)};
    char32_t value = byte(0) & (0xffu >> (lead.bytes + 1));
    for (int i = 1; i < lead.bytes; ++i) {
        const auto done = static_cast<size_t>(i);
        if (at + done >= text.size()) return {Utf8State::unfinished, done, 0};
        const unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xbf;
        if (byte(done) < low || byte(done) > high) return {Utf8State::broken, done, 0};
        value = value << 6 | (byte(done) & 0x3f);
    }
    return {Utf8State::whole, static_cast<size_t>(lead.bytes), value};
}

void append_utf8(std::string& out, char32_t value) {
    auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
    if (value < 0x80) {
        put(value);
    } else if (value < 0x800) {
        put(0xc0 | value >> 6);
        put(0x80 | (value & 0x3f));
    } else if (value < 0x10000) {
        put(0xe0 | value >> 12);
        put(0x80 | (value >> 6 & 0x3f));
        put(0x80 | (value & 0x3f));
    } else {
        put(0xf0 | value >> 18);
        put(0x80 | (value >> 12 & 0x3f));
        put(0x80 | (value >> 6 & 0x3f));
        put(0x80 | (value & 0x3f));
    }
}

size_t utf8_prefix(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
        const Utf8Step step = utf8_at(text, at);
        if (step.state != Utf8State::whole) break;
        at += step.bytes;
    }
    return at;
}

}  // namespace sluice
