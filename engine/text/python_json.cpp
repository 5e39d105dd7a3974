#include "engine/text/python_json.h"

#include <array>
#include <charconv>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

// repr() writes an exponent for numbers below 1e-4 and from 1e16.
constexpr int exponent_min = -4, exponent_end = 16;

void dump(const Json& value, std::string& out) {
    std::string_view between = "";
    if (value.is_object()) {
        out += '{';
        value.each_member([&](std::string_view key, const Json& member) {
            out += cat(between, python_json_string(key), ": ");
            dump(member, out);
            between = ", ";
            return true;
        });
        out += '}';
    } else if (value.is_array()) {
        out += '[';
        for (size_t i = 0; i < value.size(); ++i) {
            out += between;
            dump(value.at(i), out);
            between = ", ";
        }
        out += ']';
    } else if (value.is_string()) {
        out += python_json_string(value.string().value());
    } else if (value.is_bool()) {
        out += value.boolean().value() ? "true" : "false";
    } else if (value.is_number()) {
        const std::string digits = value.whole_number();
        out += digits.empty() ? python_float(value.number().value()) : digits;
    } else {
        out += "null";
    }
}

}  // namespace

std::string python_float(double number) {
    std::array<char, 64> buffer;
    const auto print = [&](std::chars_format format) {
        const auto end =
            std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format).ptr;
        return std::string(buffer.data(), end);
    };
    std::string text = print(std::chars_format::scientific);
    int exponent = 0;
    const char* digits = text.data() + text.find('e') + 1;
    std::from_chars(digits + (*digits == '+' ? 1 : 0), text.data() + text.size(), exponent);
    if (exponent < exponent_min || exponent >= exponent_end) return text;
    text = print(std::chars_format::fixed);
    if (text.find('.') == std::string::npos) text += ".0";
    return text;
}

std::string python_json_string(std::string_view text) {
    constexpr std::string_view escaped = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    std::string out = "\"";
    for (const char c : text) {
        if (const size_t at = escaped.find(c); at != std::string_view::npos)
            out += {'\\', letters[at]};
        else if (static_cast<unsigned char>(c) < 0x20)
            out += formatted("\\u{:04x}", static_cast<unsigned>(c));
        else
            out += c;
    }
    return out + '"';
}

std::string python_json(const Json& value) {
    std::string out;
    dump(value, out);
    return out;
}

}  // namespace sluice
