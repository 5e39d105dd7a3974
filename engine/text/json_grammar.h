// Which JSON texts an answer may be: all objects, or what a JSON Schema describes.
//
// A grammar is a table of values; a value is one of several shapes, and an object's or an array's
// shape names the values inside it. json_automaton.h follows a text through it.
//
// The texts are JSON (RFC 8259) in UTF-8 without these, so that an answer cannot grow for ever
// outside a string or a list that the grammar leaves unbounded:
//
//   nesting      at most 64 open objects and arrays
//   white space  none before the value, after it, and before "," and ":"; after ":" at most a
//                space; after "{", "[" and ",", and before "}" and "]", a space, or a line feed and
//                at most 4 spaces for each open object and array
//   numbers      at most 20 digits before the point, 20 after it, and 2 in the exponent
//   escapes      \uD800 to \uDFFF only as a pair
//
// An object that a grammar leaves open may repeat a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/text/byte_trie.h"
#include "io/error.h"

namespace sluice {

namespace json {

using ValueId = uint32_t;
using ShapeId = uint32_t;

inline constexpr uint32_t unlimited = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t nesting_max = 64;
inline constexpr uint32_t impossible = nesting_max + 1;  // as a height: nothing fits

// One of these texts.
struct Literals {
    ByteTrie texts;
};
struct String {
    uint32_t min = 0, max = unlimited;  // characters
};
struct Number {
    bool integer = false;    // no point, no exponent
    bool negative = true;    // may begin with "-"
    bool zero_first = true;  // may begin with "0"
};
struct Property {
    ValueId value;
    bool required;
};
// The properties come in this order. Others follow them.
struct Object {
    ByteTrie keys;  // each followed by a quote; numbers: index of the property
    std::vector<Property> properties;
    std::optional<ValueId> others;
    // By index: the first required property from there on; properties.size(): none. One more entry
    // than properties.
    std::vector<uint32_t> next_required;
};
struct Array {
    std::vector<ValueId> first;
    std::optional<ValueId> others;
    uint32_t min = 0, max = unlimited;  // items
};
using Shape = std::variant<Literals, String, Number, Object, Array>;

struct Value {
    std::vector<ShapeId> shapes;   // different ones
    uint32_t height = impossible;  // of the lowest text: 0 a scalar, 1 "[]"
};

}  // namespace json

struct JsonGrammar {
    std::vector<json::Shape> shapes;
    std::vector<uint32_t> heights;  // by shape, as those of values
    std::vector<json::Value> values;
    json::ValueId root = 0;

    // These are in every grammar.
    static constexpr json::ShapeId any_string = 0;
    static constexpr json::ValueId any_value = 0;

    // Requires a grammar that is complete but for heights, and computes them.
    void measure();
};

// Any object.
std::shared_ptr<const JsonGrammar> any_object_grammar();

// With the shapes and values that are in every grammar, and no root.
JsonGrammar basic_grammar();

}  // namespace sluice
