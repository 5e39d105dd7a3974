#include "engine/text/schema_compiler.h"

#include <algorithm>
#include <span>

#include "engine/text/schema_literals.h"
#include "io/text.h"

namespace sluice {

using namespace json;

namespace {

constexpr size_t schemas_max = 5000, bytes_max = 128 << 10;
constexpr size_t path_bytes_max = 300;  // of a schema's path, for messages

using Names = std::span<const std::string_view>;
constexpr std::string_view annotations[] = {
    "title",           "description",      "default", "examples", "deprecated",
    "readOnly",        "writeOnly",        "$schema", "$id",      "$comment",
    "contentEncoding", "contentMediaType", "format",  "$defs",    "definitions"};
constexpr std::string_view deciding[] = {"$ref", "anyOf", "oneOf", "allOf", "enum", "const"};
constexpr std::string_view ordinary[] = {"type",
                                         "properties",
                                         "required",
                                         "additionalProperties",
                                         "items",
                                         "prefixItems",
                                         "minItems",
                                         "maxItems",
                                         "uniqueItems",
                                         "minLength",
                                         "maxLength",
                                         "minimum",
                                         "exclusiveMinimum",
                                         "maximum",
                                         "exclusiveMaximum"};

bool is_in(Names names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// "a~1b" is the name "a/b" in a JSON pointer.
std::string unescaped(std::string_view name) {
    std::string out;
    for (size_t i = 0; i < name.size(); ++i) {
        const bool escape = name[i] == '~' && i + 1 < name.size();
        out += escape ? (name[++i] == '1' ? '/' : '~') : name[i];
    }
    return out;
}

}  // namespace

Result<JsonGrammar> SchemaCompiler::compile() {
    const ValueId root = add_value(root_);
    references_["#"] = root;
    fill(root, root_);
    while (!error_ && !open_.empty()) {
        const auto [id, schema] = open_.front();
        open_.pop_front();
        fill(id, schema);
    }
    if (error_) return tl::unexpected(*error_);
    return std::move(draft_).finish(root);
}

void SchemaCompiler::refuse(const Json& at, std::string_view why) {
    if (error_) return;
    const std::string& path = at.path();
    error_ = {Code::usage, cat("JSON schema: ", path.empty() ? "the top" : path, ": ", why)};
}

void SchemaCompiler::unsupported(const Json& at, std::string_view name, std::string_view hint) {
    refuse(at, cat('"', printable(name), "\" is not supported", hint));
}

ValueId SchemaCompiler::add_value(const Json& schema) {
    if (draft_.values() > schemas_max)
        refuse(schema, cat("more than ", schemas_max, " schemas in it"));
    const std::string& path = schema.path();
    return draft_.add_value(path.empty() ? "the top" : path.substr(0, path_bytes_max));
}

ValueId SchemaCompiler::value(const Json& schema) {
    if (schema.boolean().value_or(false)) return JsonGrammar::any_value;
    const ValueId id = add_value(schema);
    fill(id, schema);
    return id;
}

void SchemaCompiler::fill(ValueId id, const Json& schema) {
    if (error_) return;
    if (schema.is_bool()) {
        if (schema.boolean().value_or(false)) draft_.may_be_as(id, JsonGrammar::any_value);
        return;
    }
    if (!schema.is_object()) return refuse(schema, "a schema is an object, true or false");
    const std::string decides = check_keywords(schema);
    if (error_) return;
    if (decides.empty()) return typed(id, schema);
    if (decides == "$ref") return reference(id, schema[decides]);
    if (decides == "enum" || decides == "const") return constants(id, schema);
    branches(id, schema[decides], decides);
}

std::string SchemaCompiler::check_keywords(const Json& schema) {
    std::string decides, other;
    for (const std::string& key : schema.keys()) {
        if (is_in(annotations, key) || key.starts_with("x-")) continue;
        if (is_in(deciding, key)) {
            if (!decides.empty()) unsupported(schema, key, cat(" beside \"", decides, '"'));
            decides = key;
        } else if (is_in(ordinary, key)) {
            if (key != "type" || other.empty()) other = key;
        } else {
            unsupported(schema, key);
        }
    }
    const bool constant = decides == "enum" || decides == "const";
    if (!decides.empty() && !other.empty() && !(constant && other == "type"))
        unsupported(schema, other, cat(" beside \"", decides, '"'));
    return decides;
}

void SchemaCompiler::reference(ValueId id, const Json& ref) {
    const auto text = ref.string();
    if (!text) return refuse(ref, "a reference is a string");
    const auto known = references_.find(*text);
    if (known != references_.end()) return draft_.may_be_as(id, known->second);
    for (std::string_view folder : {"$defs", "definitions"}) {
        const std::string prefix = cat("#/", folder, "/");
        if (!text->starts_with(prefix)) continue;
        const std::string name = unescaped(std::string_view(*text).substr(prefix.size()));
        if (!root_[folder].has(name)) break;
        const Json target = root_[folder][name];
        const ValueId value = add_value(target);
        references_[*text] = value;
        open_.emplace_back(value, target);
        return draft_.may_be_as(id, value);
    }
    refuse(ref, cat('"', printable(*text),
                    "\" is not \"#\", \"#/$defs/NAME\" or "
                    "\"#/definitions/NAME\" of this schema"));
}

void SchemaCompiler::branches(ValueId id, const Json& list, std::string_view keyword) {
    if (!list.is_array() || list.size() == 0) return refuse(list, "a list of schemas is needed");
    if (keyword == "allOf" && list.size() > 1)
        return refuse(list, "\"allOf\" of several schemas is not supported");
    std::vector<ValueId> values;
    for (size_t i = 0; i < list.size() && !error_; ++i) {
        values.push_back(value(list.at(i)));
        draft_.may_be_as(id, values.back());
    }
    if (keyword == "oneOf") draft_.keep_apart(list.path(), std::move(values));
}

void SchemaCompiler::constants(ValueId id, const Json& schema) {
    const bool is_enum = schema.has("enum");
    const Json list = schema["enum"];
    if (is_enum && (!list.is_array() || list.size() == 0))
        return refuse(list, "a list of values is needed");
    std::vector<std::string> wanted;
    if (schema.has("type")) wanted = types(id, schema);
    std::vector<std::string> texts;
    for (size_t i = 0; i < (is_enum ? list.size() : 1); ++i) {
        const Json value = is_enum ? list.at(i) : schema["const"];
        const auto text = literal_text(value);
        if (!text) return refuse(value, "numbers beyond 64 bits are not supported");
        count_bytes(value, text->size());
        const std::string_view type = json_type(value);
        const auto is_wanted = [&](const std::string& name) {
            return name == type || (name == "number" && type == "integer");
        };
        const bool fits = wanted.empty() || std::any_of(wanted.begin(), wanted.end(), is_wanted);
        if (fits) texts.push_back(*text);
    }
    if (!error_ && !texts.empty()) draft_.may_be(id, draft_.add_literals(std::move(texts)));
}

void SchemaCompiler::count_bytes(const Json& at, size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > bytes_max)
        refuse(at, cat("more than ", bytes_max >> 10, " KiB of property names and constants"));
}

}  // namespace sluice
