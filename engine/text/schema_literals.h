// The constants of a schema as texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace sluice {

// The text of a value, without white space: equal texts for equal scalars. Nothing for a value with
// a number beyond 64 bits.
std::optional<std::string> literal_text(const Json& value);

// "string", "integer", "number" (not whole), "boolean", "null", "object" or "array".
std::string_view json_type(const Json& value);
// The same of the text of a value, where every number is a "number".
std::string_view type_of_text(std::string_view text);

}  // namespace sluice
