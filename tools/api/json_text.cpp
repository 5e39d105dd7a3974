#include "tools/api/json_text.h"

#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

std::string number_text(const Json& value) {
    if (const auto whole = value.integer()) return cat(*whole);
    std::string text = formatted("{}", value.number().value_or(0));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

}  // namespace

std::string json_text(const Json& value) {
    if (value.is_string()) return json_quote(value.string().value_or(""));
    if (value.is_number()) return number_text(value);
    if (value.is_bool()) return value.boolean().value_or(false) ? "true" : "false";
    std::string out;
    if (value.is_array()) {
        for (size_t i = 0; i < value.size(); ++i) {
            out += cat(i == 0 ? "" : ",", json_text(value.at(i)));
        }
        return cat("[", out, "]");
    }
    if (!value.is_object()) return "null";
    value.each_member([&](std::string_view key, const Json& member) {
        out += cat(out.empty() ? "" : ",", json_quote(key), ":", json_text(member));
        return true;
    });
    return cat("{", out, "}");
}

}  // namespace sluice
