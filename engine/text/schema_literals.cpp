#include "engine/text/schema_literals.h"

#include <cmath>
#include <cstdint>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr double integers_end = 0x1p63;

std::optional<std::string> number_text(const Json& value) {
    if (const auto whole = value.integer()) return cat(*whole);
    const auto number = value.number();
    if (!number || !(std::abs(*number) < integers_end)) return std::nullopt;
    if (*number == std::trunc(*number)) return cat(static_cast<int64_t>(*number));
    return formatted("{}", *number);
}

std::optional<std::string> container_text(const Json& value) {
    const bool object = value.is_object();
    const auto keys = value.keys();
    std::string out(1, object ? '{' : '[');
    for (size_t i = 0; i < value.size(); ++i) {
        const auto item = literal_text(object ? value[keys[i]] : value.at(i));
        if (!item) return std::nullopt;
        if (i > 0) out += ',';
        if (object) out += json_quote(keys[i]) + ':';
        out += *item;
    }
    return out + (object ? '}' : ']');
}

}  // namespace

std::optional<std::string> literal_text(const Json& value) {
    if (const auto text = value.string()) return json_quote(*text);
    if (const auto truth = value.boolean()) return *truth ? "true" : "false";
    if (value.is_number()) return number_text(value);
    if (value.is_object() || value.is_array()) return container_text(value);
    return "null";
}

std::string_view json_type(const Json& value) {
    if (value.is_number()) {
        const auto number = value.number();
        return number && *number == std::trunc(*number) ? "integer" : "number";
    }
    if (value.is_string()) return "string";
    if (value.is_bool()) return "boolean";
    if (value.is_object()) return "object";
    return value.is_array() ? "array" : "null";
}

std::string_view type_of_text(std::string_view text) {
    switch (text.empty() ? '0' : text[0]) {
        case '"':
            return "string";
        case '{':
            return "object";
        case '[':
            return "array";
        case 't':
        case 'f':
            return "boolean";
        case 'n':
            return "null";
        default:
            return "number";
    }
}

}  // namespace sluice
