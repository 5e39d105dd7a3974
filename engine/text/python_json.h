// JSON text as Python's json.dumps(ensure_ascii=False) writes it: the form in which the model has
// seen tool declarations, schemas and arguments.
#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace sluice {

// ", " and ": " between values, members in the order of the document, floats as Python's repr
// writes them (1.0, 1e-05, 1e+16), whole numbers of any size with all their digits. Nested at most
// as deep as Json::parse allows.
std::string python_json(const Json& value);

// `text` as a string of such a document: its control characters are escaped, nothing else that
// JSON allows.
std::string python_json_string(std::string_view text);

// As repr(float). Requires a finite number.
std::string python_float(double number);

}  // namespace sluice
