#include "engine/text/json_schema.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/text/json_automaton.h"

using namespace sluice;

namespace {

bool accepts(std::string_view schema, std::string_view text) {
    auto grammar = compile_json_schema(schema);
    REQUIRE_MESSAGE(grammar, (grammar ? "" : grammar.error().message));
    JsonAutomaton automaton(*grammar);
    for (char c : text)
        if (!automaton.accept(std::string_view(&c, 1))) return false;
    return automaton.can_end();
}

void refuses(std::string_view schema, std::string_view part) {
    const auto grammar = compile_json_schema(schema);
    CAPTURE(schema);
    REQUIRE(!grammar);
    CHECK(grammar.error().code == Code::usage);
    CAPTURE(grammar.error().message);
    CHECK(grammar.error().message.find("JSON schema: ") == 0);
    CHECK(grammar.error().message.find(part) != std::string::npos);
}

struct Case {
    const char* schema;
    std::vector<const char*> good, bad;
};

void check(const Case& c) {
    CAPTURE(c.schema);
    for (const char* text : c.good) {
        CAPTURE(text);
        CHECK(accepts(c.schema, text));
    }
    for (const char* text : c.bad) {
        CAPTURE(text);
        CHECK(!accepts(c.schema, text));
    }
}

std::string repeated(std::string_view text, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += text;
    return out;
}

}  // namespace

TEST_CASE("json schema: types") {
    check({R"({"type": "string"})", {"\"\"", "\"a\\u00e9\""}, {"1", "null", "a"}});
    check({R"({"type": "integer"})", {"0", "-12", "-0"}, {"1.0", "1e3", "01", "\"1\""}});
    check({R"({"type": "number"})", {"0", "-1.5e-7"}, {"-", "1.", "true"}});
    check({R"({"type": "boolean"})", {"true", "false"}, {"null", "tru", "0"}});
    check({R"({"type": ["integer", "null"]})", {"3", "null"}, {"true", "3.5"}});
    check({R"({"type": ["integer", "number"]})", {"3", "3.5"}, {"\"\""}});
    check({R"({})", {"{\"a\":[null]}", "0", "\"\""}, {"", "{"}});
    check({R"({"title": "a", "x-order": 3, "format": "date"})", {"1"}, {}});
    check({R"(true)", {"[]"}, {"]"}});
    refuses("false", "the top: no JSON value of at most 64 nested levels is valid");
    refuses(R"({"type": "text"})", "type: not the name of a type");
    refuses(R"({"type": []})", "type: a type");
    refuses("7", "the top: a schema is an object");
    refuses("{", "not valid JSON");
}

TEST_CASE("json schema: lengths count characters") {
    check({R"({"type": "string", "minLength": 2, "maxLength": 3})",
           {"\"ab\"", "\"abc\"", "\"\xc3\xa9\xf0\x9f\x98\x80\"", "\"\\u00e9\\ud83d\\ude00\\n\""},
           {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\""}});
    check({R"({"type": "string", "maxLength": 0})", {"\"\""}, {"\"a\""}});
    check({R"({"type": "string", "minLength": 1})", {"\"a\"", "\"abcdef\""}, {"\"\""}});
    refuses(R"({"type": "string", "minLength": 3, "maxLength": 2})", "no JSON value");
    refuses(R"({"type": "string", "minLength": -1})", "minLength: a count");
    refuses(R"({"type": "string", "maxLength": 1e99})", "maxLength: a count");
}

TEST_CASE("json schema: objects have their properties in the order of the schema") {
    const char* schema = R"({"type": "object", "required": ["b"], "properties": {
        "a": {"type": "integer"}, "b": {"type": "boolean"}, "ab": {"type": "null"}}})";
    check({schema,
           {"{\"b\":true}", "{\"a\":1,\"b\":true}", "{\"b\":true,\"ab\":null}",
            "{\"a\":1,\"b\":false,\"ab\":null}", "{\n    \"a\": 1,\n  \"b\":true }"},
           {"{}", "{\"a\":1}", "{\"ab\":null,\"b\":true}", "{\"b\":true,\"a\":1}",
            "{\"b\":true,\"b\":true}", "{\"b\":true,}", "{\"b\":true,\"c\":1}", "{\"b\":1}",
            "{\"\\u0062\":true}"}});
    check({R"({"type": "object", "properties": {"a\"\n\u00e9": true}})",
           {"{\"a\\\"\\n\xc3\xa9\":1}", "{}"},
           {"{\"a\":1}"}});
    check({R"({"type": "object", "properties": {}})", {"{}", "{ }"}, {"{\"a\":1}"}});
    check({R"({"type": "object"})", {"{}", "{\"a\":1,\"a\":2}"}, {}});
    check({R"({"required": ["z", "y"]})",
           {"{\"y\":0,\"z\":0}", "{\"y\":0,\"z\":0,\"a\":1}"},
           {"{\"y\":0}", "{}", "[]", "{\"z\":0,\"y\":0}"}});
    refuses(R"({"properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
            "required: \"b\" is not in \"properties\"");
    refuses(R"({"properties": []})", "properties: an object");
    refuses(R"({"required": "a"})", "required: a list");
}

TEST_CASE("json schema: additional properties follow the declared ones and are none of them") {
    const char* schema = R"({"type": "object", "required": ["ab"], "additionalProperties":
        {"type": "integer"}, "properties": {"ab": {"type": "null"}, "a\u00e9": {"type": "null"}}})";
    check({schema,
           {"{\"ab\":null}", "{\"ab\":null,\"a\":1}", "{\"ab\":null,\"abc\":1,\"\":2}",
            "{\"ab\":null,\"a\xc3\xa8\":1}", "{\"ab\":null,\"a\xc3\xa9\":null,\"x\\u0061\":1}",
            "{\"ab\":null,\"a\xc3\xa9z\":1}"},
           {"{\"ab\":1}", "{\"ab\":null,\"ab\":1}", "{\"ab\":null,\"a\xc3\xa9\":1}", "{\"a\":1}",
            "{\"ab\":null,\"\\u0061\":1}", "{\"ab\":null,\"a\\u0062\":1}",
            "{\"ab\":null,\"c\":null}", "{\"ab\":null,\"a\xc3x\":1}"}});
    check({R"({"additionalProperties": false})", {"{}"}, {"{\"a\":1}"}});
    check({R"({"additionalProperties": {"type": "null"}})", {"{}", "{\"a\":null}"}, {"{\"a\":1}"}});
}

TEST_CASE("json schema: arrays") {
    check({R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
           {"[1]", "[1,2,3]", "[ 1, 2 ]"},
           {"[]", "[1,2,3,4]", "[1,2,3,]", "[\"a\"]"}});
    check({R"({"prefixItems": [{"type": "null"}, {"type": "integer"}]})",
           {"[]", "[null]", "[null,1]"},
           {"[1]", "[null,1,2]"}});
    check({R"({"prefixItems": [{"type": "null"}], "items": {"type": "integer"}, "minItems": 2})",
           {"[null,1]", "[null,1,2,3]"},
           {"[null]", "[]", "[null,null]"}});
    check({R"({"items": false})", {"[]"}, {"[1]"}});
    check({R"({"items": true, "uniqueItems": false, "maxItems": 0})", {"[]", "[ ]"}, {"[1]"}});
    refuses(R"({"prefixItems": [true], "items": false, "minItems": 2})", "no JSON value");
    refuses(R"({"items": [{}]})", "items: a list is not supported");
    refuses(R"({"uniqueItems": true})", "\"uniqueItems\" is not supported");
}

TEST_CASE("json schema: bounds of numbers") {
    check({R"({"type": "integer", "minimum": -1, "maximum": 12})",
           {"-1", "0", "1", "9", "12"},
           {"-2", "13", "10.0", "01", "-"}});
    check({R"({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2})",
           {"1"},
           {"0", "2"}});
    check({R"({"type": "integer", "minimum": 1})", {"1", "100"}, {"0", "-1", "01"}});
    check({R"({"type": "integer", "minimum": 0})", {"0", "10"}, {"-1"}});
    check({R"({"type": "number", "minimum": 0})", {"0", "0.5", "1e5"}, {"-1"}});
    check({R"({"type": ["integer", "null"], "minimum": 5, "maximum": 4})", {"null"}, {"5", "4"}});
    refuses(R"({"type": "integer", "maximum": 4})", "of bounds for integers");
    refuses(R"({"type": "integer", "minimum": 0, "maximum": 1000})", "more than 1000 integers");
    refuses(R"({"type": "number", "maximum": 4})", "\"maximum\" is not supported for numbers");
    refuses(R"({"type": "number", "minimum": 1})", "minimum: only 0");
    refuses(R"({"type": "integer", "minimum": 0.5})", "minimum: an integer");
    refuses(R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 0})", "60 bits");
}

TEST_CASE("json schema: constants") {
    check({R"({"enum": ["a", "ab", 1, 12, 1.5, true, null, {"b": [1, "\n"], "a": {}}]})",
           {"\"a\"", "\"ab\"", "1", "12", "1.5", "true", "null", "{\"b\":[1,\"\\n\"],\"a\":{}}"},
           {"\"b\"", "2", "1.", "123", "false", "{\"a\":{},\"b\":[1,\"\\n\"]}"}});
    check({R"({"type": "array", "items": {"enum": [1, 12]}})", {"[1,12,1]", "[12]"}, {"[112]"}});
    check({R"({"const": "x", "type": "string", "title": "t"})", {"\"x\""}, {"\"y\""}});
    check({R"({"enum": ["a", 1, 2.0, 0.5], "type": "integer"})", {"1", "2"}, {"\"a\"", "0.5"}});
    check({R"({"enum": ["a", 1, 0.5], "type": "number"})", {"1", "0.5"}, {"\"a\""}});
    check({R"({"enum": [1e18, -0.0]})", {"1000000000000000000", "0"}, {"1e18"}});
    refuses(R"({"enum": ["a"], "type": "integer"})", "no JSON value");
    refuses(R"({"enum": []})", "enum: a list");
    refuses(R"({"enum": ["a"], "minLength": 1})", "\"minLength\" is not supported beside \"enum\"");
    refuses(R"({"const": 1, "enum": [1]})", "beside");
    refuses(R"({"const": 18446744073709551615})", "const: numbers beyond 64 bits");
}

TEST_CASE("json schema: references") {
    const char* tree = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
        "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"type": "null"},
        {"$ref": "#/$defs/node", "description": "d"}]}}, "required": ["v", "next"]}}})";
    check({tree,
           {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
           {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}});
    check({R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]"}});
    check({R"({"$ref": "#/definitions/a~1~0b", "definitions": {"a/~b": {"type": "null"}}})",
           {"null"},
           {"1"}});
    refuses(R"({"$ref": "#"})", "leads back to itself");
    refuses(R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})", "leads back to itself");
    refuses(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
        "b": {"allOf": [{"$ref": "#/$defs/a"}]}}})",
            "leads back to itself");
    refuses(R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})", "no JSON value");
    refuses(R"({"properties": {"a": {"$ref": "#/$defs/x"}}})", "properties.a.$ref: \"#/$defs/x\"");
    refuses(R"({"$ref": "http://a/b"})", "\"http://a/b\" is not");
    refuses(R"({"$ref": 3})", "a reference is a string");
    refuses(R"({"$ref": "#/$defs/a", "type": "null", "$defs": {"a": true}})", "beside \"$ref\"");
}

TEST_CASE("json schema: alternatives") {
    check({R"({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}}]})",
           {"{\"a\":\"\"}", "{\"a\":1,\"b\":null}", "{}", "{\"b\":null}"},
           {"{\"a\":\"\",\"b\":null}", "{\"a\":null}"}});
    check({R"({"allOf": [{"type": "null"}]})", {"null"}, {"1"}});
    check({R"({"anyOf": [false, {"type": "null"}]})", {"null"}, {"1"}});
    refuses(R"({"allOf": [{"type": "null"}, {}]})", "allOf: \"allOf\" of several");
    refuses(R"({"anyOf": []})", "anyOf: a list of schemas");
    refuses(R"({"anyOf": [{}], "type": "object"})", "\"type\" is not supported beside \"anyOf\"");
}

TEST_CASE("json schema: oneOf only where no value can be valid twice") {
    check({R"({"oneOf": [{"type": "string"}, {"type": "null"}, {"enum": [1, 2]}, {"enum": [3]}]})",
           {"\"\"", "null", "1", "3"},
           {"4", "true"}});
    check({R"({"oneOf": [
        {"type": "object", "properties": {"t": {"const": "x"}, "v": {"type": "integer"}},
         "required": ["t", "v"]},
        {"type": "object", "properties": {"t": {"const": "y"}}, "required": ["t"]}]})",
           {"{\"t\":\"x\",\"v\":1}", "{\"t\":\"y\"}"},
           {"{\"t\":\"x\"}", "{\"t\":\"y\",\"v\":1}", "{}"}});
    const char* twice[] = {
        R"({"oneOf": [{"type": "string"}, {"type": "string", "minLength": 1}]})",
        R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})",
        R"({"oneOf": [{"enum": [1, 2]}, {"enum": [2.0]}]})",
        R"({"oneOf": [{"enum": ["a"]}, {"type": "string"}]})",
        R"({"oneOf": [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}]})",
        R"({"oneOf": [{"type": "string"}, {"properties": {"a": true}}]})",  // which allows strings
        R"({"oneOf": [{"type": "object", "properties": {"t": {"const": 1}}},
            {"type": "object", "properties": {"t": {"const": 2}}, "required": ["t"]}]})"};
    for (const char* schema : twice) refuses(schema, "branches 0 and 1");
}

TEST_CASE("json schema: other keywords are refused by name and path") {
    for (const char* keyword : {"pattern", "not", "if", "patternProperties", "multipleOf",
                                "dependentRequired", "propertyNames", "contains", "nullable",
                                "minProperties", "additionalItems", "unevaluatedProperties"}) {
        refuses(std::string(R"({"properties": {"a": {"items": {")") + keyword + "\": 1}}}}",
                std::string("properties.a.items: \"") + keyword + "\" is not supported");
    }
    refuses("{\"a\\u001b[2J\": 1}", "\\x1b");
}

TEST_CASE("json schema: OpenAI's wrapper") {
    check({R"({"name": "n", "strict": true, "schema": {"type": "null"}})", {"null"}, {"1"}});
    refuses(R"({"name": "n", "strict": true})", "\"name\" is not supported");
}

TEST_CASE("json schema: hostile schemas meet limits") {
    refuses("[" + repeated("{\"type\":\"null\"},", 6000) + "1]", "the top: a schema is an object");
    refuses("{\"prefixItems\":[" + repeated("{\"type\":\"null\"},", 6000) + "false]}",
            "more than 5000 schemas");
    refuses("{\"enum\":[\"" + repeated("abcdefgh", 20000) + "\"]}", "more than 128 KiB");
    refuses(repeated("{\"items\":", 200) + "true" + repeated("}", 200), "nested deeper");
    // Doubling: each level refers twice to the next.
    std::string doubling = R"({"$ref": "#/$defs/0", "$defs": {)";
    for (int i = 0; i < 60; ++i) {
        const std::string next = "{\"$ref\":\"#/$defs/" + std::to_string(i + 1) + "\"}";
        doubling += "\"" + std::to_string(i) + "\":{\"anyOf\":[" + next + "," + next + "]},";
    }
    doubling += "\"60\": {\"type\": \"null\"}}}";
    check({doubling.c_str(), {"null"}, {"1"}});
    std::string chain = R"({"$ref": "#/$defs/0", "$defs": {)";
    for (int i = 0; i < 1000; ++i)
        chain +=
            "\"" + std::to_string(i) + "\":{\"$ref\":\"#/$defs/" + std::to_string(i + 1) + "\"},";
    refuses(chain + "\"1000\": true}}", "references that refer on");
    std::string wide = "{\"$defs\": {\"w\": {\"anyOf\": [";
    for (int i = 0; i < 1000; ++i) wide += "{\"const\":" + std::to_string(i) + "},";
    wide += "{\"const\":-1}]}}, \"prefixItems\": [" + repeated("{\"$ref\": \"#/$defs/w\"},", 200);
    refuses(wide + "true]}", "alternatives in all");
}
