#include "tools/terminal/key_reader.h"

#include <array>
#include <cstdlib>

#include "engine/text/utf8.h"

namespace sluice {

namespace {

constexpr int escape_byte = 0x1b;
constexpr size_t sequence_max = 256;  // more is no key

Key control_key(int byte) {
    switch (byte) {
        case 1:
            return Key::line_start;
        case 2:
            return Key::left;
        case 3:
            return Key::interrupt;
        case 4:
            return Key::leave_or_erase;
        case 5:
            return Key::line_end;
        case 6:
            return Key::right;
        case 8:
        case 0x7f:
            return Key::erase_left;
        case '\t':
            return Key::tab;
        case '\n':
        case '\r':
            return Key::enter;
        case 11:
            return Key::erase_to_line_end;
        case 12:
            return Key::clear_screen;
        case 14:
            return Key::down;
        case 16:
            return Key::up;
        case 20:
            return Key::swap;
        case 21:
            return Key::erase_to_line_start;
        case 23:
            return Key::erase_word_left;
        case 25:
            return Key::put_back;
        default:
            return Key::nothing;
    }
}

// The last byte of ESC [ ... and of ESC O ...; `modified`: with Alt or Ctrl.
Key cursor_key(int last, bool modified) {
    switch (last) {
        case 'A':
            return Key::up;
        case 'B':
            return Key::down;
        case 'C':
            return modified ? Key::word_right : Key::right;
        case 'D':
            return modified ? Key::word_left : Key::left;
        case 'H':
            return Key::line_start;
        case 'F':
            return Key::line_end;
        case 'c':  // of rxvt, with Ctrl
            return Key::word_right;
        case 'd':
            return Key::word_left;
        case 'M':  // of the keypad
            return Key::enter;
        default:
            return Key::nothing;
    }
}

Key numbered_key(int number, bool modified) {
    switch (number) {
        case 1:
        case 7:
            return Key::line_start;
        case 4:
        case 8:
            return Key::line_end;
        case 3:
            return modified ? Key::erase_word_right : Key::erase_right;
        default:
            return Key::nothing;
    }
}

// A key by its code point, as CSI u and modifyOtherKeys report it. `modifier`: 1, and 1 for Shift,
// 2 for Alt, 4 for Ctrl.
KeyPress coded_key(int point, int modifier) {
    const bool alt = ((modifier - 1) & 2) != 0, ctrl = ((modifier - 1) & 4) != 0;
    if (point == '\r' || point == '\n') return {modifier > 1 ? Key::new_line : Key::enter};
    if (point == escape_byte) return {};
    if (point < 0x20 || point == 0x7f)
        return {alt || ctrl ? Key::erase_word_left : control_key(point)};
    if (ctrl && point < 0x80) return {control_key(point & 0x1f)};
    if (alt || ctrl || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return {};
    if (point >= 0xe000 && point <= 0xf8ff) return {};  // keys without a character
    std::string text;
    append_utf8(text, static_cast<char32_t>(point));
    return {Key::text, std::move(text)};
}

}  // namespace

KeyPress KeyReader::next() {
    const int first = input_.character();
    if (first == KeyInput::end) return {Key::end};
    if (first == KeyInput::interrupted) return {};
    if (first == escape_byte) return escape();
    if (first < 0x20 || first == 0x7f) return {control_key(first)};
    std::string text;
    if (first >= KeyInput::stand_in)
        text = static_cast<char>(first - KeyInput::stand_in);
    else
        append_utf8(text, static_cast<char32_t>(first));
    return {Key::text, std::move(text)};
}

// The bytes of a key come together: a pause means that there are no more.
int KeyReader::byte_of_sequence() {
    return input_.byte_soon();
}

KeyPress KeyReader::escape() {
    int next = byte_of_sequence();
    if (next == escape_byte) {  // Alt and a key, of rxvt
        next = byte_of_sequence();
        if (next != '[' && next != 'O') return {};
        const KeyPress press = next == '[' ? control_sequence() : single_shift();
        if (press.key == Key::left) return {Key::word_left};
        if (press.key == Key::right) return {Key::word_right};
        return press;
    }
    if (next == '[') return control_sequence();
    if (next == 'O') return single_shift();
    if (next == ']' || next == 'P' || next == '_' || next == '^' || next == 'X')
        return skip_string(), KeyPress{};
    return alt(next);
}

KeyPress KeyReader::alt(int byte) {
    switch (byte) {
        case '\r':
        case '\n':
            return {Key::new_line};
        case 'b':
        case 'B':
            return {Key::word_left};
        case 'f':
        case 'F':
            return {Key::word_right};
        case 'd':
        case 'D':
            return {Key::erase_word_right};
        case 8:
        case 0x7f:
            return {Key::erase_word_left};
        default:
            return {};
    }
}

KeyPress KeyReader::control_sequence() {
    std::array<int, 4> numbers{};
    size_t count = 0;
    bool marked = false;  // a private form: a report, a reply
    int byte = byte_of_sequence();
    if (byte == '[') return byte_of_sequence(), KeyPress{};  // F1 to F5 of the Linux console
    for (size_t i = 0; byte >= 0x20 && byte < 0x40 && i < sequence_max; ++i) {
        if (byte >= '0' && byte <= '9' && count < numbers.size()) {
            numbers[count] =
                numbers[count] < 0x110000 ? numbers[count] * 10 + byte - '0' : numbers[count];
        } else if (byte == ';') {
            ++count;
        } else if (byte == ':') {
            count = numbers.size();  // further facts about the key
        } else if (byte != '$' && byte != '^' && byte != '@') {
            marked = true;
        }
        byte = byte_of_sequence();
    }
    if (byte == 'M' && !marked && count == 0 && numbers[0] == 0) {  // a mouse report of xterm
        for (int i = 0; i < 3; ++i) (void)byte_of_sequence();
        return {};
    }
    if (marked || byte < 0x40) return {};
    const bool modified = numbers[1] > 2;
    if (byte == 'u') return coded_key(numbers[0], numbers[1] == 0 ? 1 : numbers[1]);
    if (byte != '~') {
        const bool key = byte != 'M';
        return {key ? cursor_key(byte, modified) : Key::nothing};
    }
    if (numbers[0] == 200) return {Key::paste, input_.paste()};
    if (numbers[0] == 27 && count >= 2) return coded_key(numbers[2], numbers[1]);
    return {numbered_key(numbers[0], modified)};
}

KeyPress KeyReader::single_shift() {
    int byte = byte_of_sequence();
    int modifier = 0;
    for (size_t i = 0; ((byte >= '0' && byte <= '9') || byte == ';') && i < sequence_max; ++i) {
        modifier = byte;
        byte = byte_of_sequence();
    }
    return {cursor_key(byte, modifier > '2')};
}

// Up to BEL or ESC \.
void KeyReader::skip_string() {
    int before = 0;
    for (size_t i = 0; i < sequence_max * 16; ++i) {
        const int byte = byte_of_sequence();
        if (byte < 0 || byte == 7 || (before == escape_byte && byte == '\\')) return;
        before = byte;
    }
}

}  // namespace sluice
