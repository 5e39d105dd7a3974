// Compiles a JSON Schema to a JsonGrammar: every text of the grammar is valid under the schema.
//
// Supported, by keyword:
//   type                   one name or a list; absent: what the other keywords are about (with
//                          "properties", an object), or any value
//   properties, required   in the order of "properties"; then required names that are not in it
//   additionalProperties   they follow the declared ones; absent: none where "properties" is given
//   items, prefixItems     absent "items": none behind "prefixItems", else any
//   minItems, maxItems, minLength (characters), maxLength
//   minimum, maximum, exclusiveMinimum, exclusiveMaximum
//                          integers: a range of at most 1,000 values, or a minimum of 0 or 1
//                          alone; numbers: "minimum": 0 alone
//   enum, const            compact text, with keys in the given order; beside them only "type"
//   anyOf                  beside it only annotations
//   oneOf                  only if no value can be valid under two branches: they differ in type,
//                          in their constants, or in those of a property that all require
//   allOf                  of one schema
//   $ref                   "#", "#/$defs/NAME", "#/definitions/NAME"; recursive ones, too
//   true, false            as schemas
// Without effect: annotations (title, description, default, examples, deprecated, readOnly,
// writeOnly, $schema, $id, $comment, contentEncoding, contentMediaType, names that begin with x-),
// "format", and "uniqueItems": false. Anything else is refused by name: an answer would not be
// bound by it.
//
// OpenAI's {"name", "schema", "strict"} around a schema is accepted. "strict" changes nothing.
//
// Limits, for schemas of strangers: 5,000 schemas, 128 KiB of property names and constants, 128
// nested levels or references that refer on, 100,000 alternatives in all. The compiler's time and
// memory are bounded by them (some 20 MB).
#pragma once

#include <memory>
#include <string_view>

#include "engine/text/json_grammar.h"
#include "io/error.h"

namespace sluice {

// usage, with keyword and path: not JSON, not supported, over a limit, or valid for no text (which
// includes one that needs more nesting than the grammar allows).
Result<std::shared_ptr<const JsonGrammar>> compile_json_schema(std::string_view text);

}  // namespace sluice
