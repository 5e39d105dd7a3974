// Source of schema_compiler.h: schemas with a type.
#include <algorithm>
#include <limits>
#include <set>

#include "engine/text/schema_compiler.h"
#include "io/text.h"

namespace sluice {

using namespace json;

namespace {

constexpr int64_t range_max = 1000;  // integers between two bounds
constexpr int64_t bound_max = int64_t{1} << 60;
constexpr std::string_view type_names[] = {"string", "number", "integer", "boolean",
                                           "null",   "object", "array"};

struct About {
    std::string_view keyword, type;
};
constexpr About about[] = {{"properties", "object"},
                           {"required", "object"},
                           {"additionalProperties", "object"},
                           {"items", "array"},
                           {"prefixItems", "array"},
                           {"minItems", "array"},
                           {"maxItems", "array"},
                           {"uniqueItems", "array"},
                           {"minLength", "string"},
                           {"maxLength", "string"},
                           {"minimum", "number"},
                           {"maximum", "number"},
                           {"exclusiveMinimum", "number"},
                           {"exclusiveMaximum", "number"}};

}  // namespace

void SchemaCompiler::typed(ValueId id, const Json& schema) {
    const auto wanted = types(id, schema);
    if (wanted.empty() && !error_) draft_.may_be_as(id, JsonGrammar::any_value);
    const bool numbers = std::find(wanted.begin(), wanted.end(), "number") != wanted.end();
    for (const std::string& type : wanted) {
        if (error_) return;
        if (type == "integer" && numbers) continue;
        one_type(id, type, schema);
    }
}

// Empty: any.
std::vector<std::string> SchemaCompiler::types(ValueId id, const Json& schema) {
    std::vector<std::string> out;
    const Json type = schema["type"];
    if (!schema.has("type")) {
        for (const About& entry : about) {
            const bool known = std::find(out.begin(), out.end(), entry.type) != out.end();
            if (!known && schema.has(entry.keyword)) out.emplace_back(entry.type);
        }
        if (!out.empty()) draft_.set_narrowed(id);
        return out;
    }
    const size_t count = type.is_array() ? type.size() : 1;
    if (count == 0) refuse(type, "a type, or a list of types, is needed");
    for (size_t i = 0; i < count && !error_; ++i) {
        const Json item = type.is_array() ? type.at(i) : type;
        const auto name = item.string();
        if (!name || std::find(std::begin(type_names), std::end(type_names), *name) ==
                         std::end(type_names)) {
            refuse(item, "not the name of a type");
        } else if (std::find(out.begin(), out.end(), *name) == out.end()) {
            out.push_back(*name);
        }
    }
    return out;
}

void SchemaCompiler::one_type(ValueId id, const std::string& type, const Json& schema) {
    if (type == "string") return string(id, schema);
    if (type == "number") return number(id, schema);
    if (type == "integer") return integer(id, schema);
    if (type == "object") return object(id, schema);
    if (type == "array") return array(id, schema);
    if (type == "null") return draft_.may_be(id, draft_.add_literals({"null"}));
    draft_.may_be(id, draft_.add_literals({"true", "false"}));
}

bool SchemaCompiler::range(const Json& schema, std::string_view min_key, std::string_view max_key,
                           uint32_t& min, uint32_t& max) {
    for (auto [key, bound] : {std::pair(min_key, &min), std::pair(max_key, &max)}) {
        if (!schema.has(key)) continue;
        const auto count = schema[key].integer();
        if (!count || *count < 0 || *count > std::numeric_limits<int32_t>::max()) {
            refuse(schema[key], "a count of at most 31 bits is needed");
            return false;
        }
        *bound = static_cast<uint32_t>(*count);
    }
    return min <= max;
}

void SchemaCompiler::string(ValueId id, const Json& schema) {
    String shape;
    if (range(schema, "minLength", "maxLength", shape.min, shape.max))
        draft_.may_be(id, draft_.add_shape(shape));
}

void SchemaCompiler::array(ValueId id, const Json& schema) {
    Array shape;
    const Json first = schema["prefixItems"], items = schema["items"];
    if (schema.has("uniqueItems") && schema["uniqueItems"].boolean().value_or(true))
        return unsupported(schema, "uniqueItems");
    if (items.is_array()) return refuse(items, "a list is not supported; use \"prefixItems\"");
    if (schema.has("prefixItems") && !first.is_array())
        return refuse(first, "a list of schemas is needed");
    for (size_t i = 0; i < first.size() && !error_; ++i) shape.first.push_back(value(first.at(i)));
    if (schema.has("items")) {
        shape.others = value(items);
    } else if (shape.first.empty()) {
        shape.others = JsonGrammar::any_value;
    }
    if (range(schema, "minItems", "maxItems", shape.min, shape.max))
        draft_.may_be(id, draft_.add_shape(std::move(shape)));
}

bool SchemaCompiler::required_names(const Json& schema, std::vector<std::string>& names) {
    const Json list = schema["required"];
    if (schema.has("required") && !list.is_array()) refuse(list, "a list of names is needed");
    for (size_t i = 0; i < list.size() && !error_; ++i) {
        const auto name = list.at(i).string();
        if (!name) refuse(list.at(i), "a name is needed");
        if (name) names.push_back(*name);
    }
    return !error_;
}

void SchemaCompiler::object(ValueId id, const Json& schema) {
    Object shape;
    const Json properties = schema["properties"], others = schema["additionalProperties"];
    if (schema.has("properties") && !properties.is_object())
        return refuse(properties, "an object of schemas is needed");
    std::vector<std::string> required;
    if (!required_names(schema, required)) return;
    const std::set<std::string> must(required.begin(), required.end());
    std::vector<std::string> names = properties.keys();
    for (const std::string& name : names)
        shape.properties.push_back({value(properties[name]), must.contains(name)});
    if (schema.has("additionalProperties")) {
        if (others.boolean().value_or(true)) shape.others = value(others);
    } else if (!schema.has("properties")) {
        shape.others = JsonGrammar::any_value;
    }
    const std::set<std::string> declared(names.begin(), names.end());
    for (const std::string& name : must) {
        if (declared.contains(name)) continue;
        if (schema.has("additionalProperties") && !shape.others)
            return refuse(schema["required"], cat('"', printable(name),
                                                  "\" is not in \"properties\""
                                                  ", and no others are allowed"));
        names.push_back(name);
        shape.properties.push_back({shape.others.value_or(JsonGrammar::any_value), true});
    }
    for (uint32_t i = 0; i < names.size(); ++i) {
        const std::string key = json_quote(names[i]).substr(1);
        count_bytes(schema, key.size());
        if (error_) return;
        shape.keys.add(key, i);
    }
    const auto count = static_cast<uint32_t>(names.size());
    shape.next_required.assign(count + 1, count);
    for (uint32_t i = count; i-- > 0;)
        shape.next_required[i] = shape.properties[i].required ? i : shape.next_required[i + 1];
    draft_.may_be(id, draft_.add_object(std::move(shape), std::move(names)));
}

void SchemaCompiler::number(ValueId id, const Json& schema) {
    Number shape;
    for (std::string_view key : {"maximum", "exclusiveMaximum", "exclusiveMinimum"}) {
        if (schema.has(key)) return unsupported(schema, key, " for numbers, only for integers");
    }
    if (schema.has("minimum")) {
        if (schema["minimum"].number().value_or(1) != 0)
            return refuse(schema["minimum"], "only 0 is supported for numbers");
        shape.negative = false;
    }
    draft_.may_be(id, draft_.add_shape(shape));
}

// The bound that two keywords set together, as the first or last value inside it; `inwards` is 1
// for lower bounds and -1 for upper ones.
std::optional<int64_t> SchemaCompiler::integer_bound(const Json& schema, std::string_view inclusive,
                                                     std::string_view exclusive, int64_t inwards) {
    std::optional<int64_t> bound;
    for (std::string_view key : {inclusive, exclusive}) {
        if (!schema.has(key)) continue;
        const auto value = schema[key].integer();
        if (!value || *value > bound_max || *value < -bound_max) {
            refuse(schema[key], "an integer of at most 60 bits is needed");
            return std::nullopt;
        }
        const int64_t inside = key == exclusive ? *value + inwards : *value;
        if (!bound || (inside - *bound) * inwards > 0) bound = inside;
    }
    return bound;
}

void SchemaCompiler::integer(ValueId id, const Json& schema) {
    Number shape;
    shape.integer = true;
    const auto low = integer_bound(schema, "minimum", "exclusiveMinimum", 1);
    const auto high = integer_bound(schema, "maximum", "exclusiveMaximum", -1);
    if (error_) return;
    if (low && high) {
        if (*high < *low) return;
        if (*high - *low >= range_max)
            return refuse(schema,
                          cat("a range of more than ", range_max, " integers is not supported"));
        std::vector<std::string> texts;
        for (int64_t i = *low; i <= *high; ++i) texts.push_back(cat(i));
        for (const std::string& text : texts) count_bytes(schema, text.size());
        return draft_.may_be(id, draft_.add_literals(std::move(texts)));
    }
    if (high || (low && *low != 0 && *low != 1))
        return refuse(schema,
                      "of bounds for integers, a range, or a minimum of 0 or 1 alone, is "
                      "supported");
    shape.negative = !low;
    shape.zero_first = !low || *low == 0;
    draft_.may_be(id, draft_.add_shape(shape));
}

}  // namespace sluice
