// Checks a value against a JSON Schema in the plainest way, as the judge of generated texts.
// Knows the keywords that the grammar compiler supports; any order of properties is valid.
#pragma once

#include <algorithm>
#include <string>

#include "engine/text/schema_literals.h"
#include "engine/text/utf8.h"
#include "io/json.h"

namespace sluice::test {

class JsonValidator {
 public:
    explicit JsonValidator(Json schema) : root_(std::move(schema)) {}
    bool valid(const Json& value) const { return valid(value, root_); }

 private:
    static bool has_type(const Json& value, const std::string& type) {
        const auto own = json_type(value);
        return own == type || (own == "integer" && type == "number");
    }
    static size_t characters(std::string_view text) {
        size_t count = 0;
        for (size_t at = 0; at < text.size(); ++count) at += utf8_at(text, at).bytes;
        return count;
    }
    static bool in_range(double value, const Json& schema, const char* low, const char* high) {
        return (!schema.has(low) || value >= schema[low].number().value()) &&
               (!schema.has(high) || value <= schema[high].number().value());
    }
    size_t valid_branches(const Json& value, const Json& list) const {
        size_t count = 0;
        for (size_t i = 0; i < list.size(); ++i) count += valid(value, list.at(i));
        return count;
    }
    bool valid_type(const Json& value, const Json& schema) const {
        const Json type = schema["type"];
        if (const auto one = type.string()) return has_type(value, *one);
        for (size_t i = 0; i < type.size(); ++i)
            if (has_type(value, type.at(i).string().value())) return true;
        return !schema.has("type");
    }
    bool valid_constant(const Json& value, const Json& schema) const {
        const auto text = literal_text(value);
        if (schema.has("const") && literal_text(schema["const"]) != text) return false;
        const Json list = schema["enum"];
        for (size_t i = 0; i < list.size(); ++i)
            if (literal_text(list.at(i)) == text) return true;
        return !schema.has("enum");
    }
    bool valid_object(const Json& value, const Json& schema) const {
        for (size_t i = 0; i < schema["required"].size(); ++i)
            if (!value.has(schema["required"].at(i).string().value())) return false;
        for (const std::string& key : value.keys()) {
            const Json properties = schema["properties"];
            if (properties.has(key)) {
                if (!valid(value[key], properties[key])) return false;
            } else if (schema.has("additionalProperties") &&
                       !valid(value[key], schema["additionalProperties"])) {
                return false;
            }
        }
        return true;
    }
    bool valid_array(const Json& value, const Json& schema) const {
        const Json first = schema["prefixItems"];
        for (size_t i = 0; i < value.size(); ++i) {
            if (i < first.size() && !valid(value.at(i), first.at(i))) return false;
            if (i >= first.size() && schema.has("items") && !valid(value.at(i), schema["items"]))
                return false;
        }
        return in_range(static_cast<double>(value.size()), schema, "minItems", "maxItems");
    }
    bool valid(const Json& value, const Json& schema) const {
        if (const auto truth = schema.boolean()) return *truth;
        if (const auto ref = schema["$ref"].string()) {
            if (*ref == "#") return valid(value, root_);
            const size_t slash = ref->rfind('/');
            const char* folder = ref->starts_with("#/$defs") ? "$defs" : "definitions";
            return valid(value, root_[folder][ref->substr(slash + 1)]);
        }
        if (schema.has("anyOf")) return valid_branches(value, schema["anyOf"]) > 0;
        if (schema.has("oneOf")) return valid_branches(value, schema["oneOf"]) == 1;
        if (schema.has("allOf")) return valid(value, schema["allOf"].at(0));
        if (!valid_type(value, schema) || !valid_constant(value, schema)) return false;
        if (value.is_object()) return valid_object(value, schema);
        if (value.is_array()) return valid_array(value, schema);
        if (const auto text = value.string())
            return in_range(static_cast<double>(characters(*text)), schema, "minLength",
                            "maxLength");
        if (!value.is_number()) return true;
        const double number = value.number().value();
        if (schema.has("exclusiveMinimum") && number <= schema["exclusiveMinimum"].number().value())
            return false;
        if (schema.has("exclusiveMaximum") && number >= schema["exclusiveMaximum"].number().value())
            return false;
        return in_range(number, schema, "minimum", "maximum");
    }

    Json root_;
};

}  // namespace sluice::test
