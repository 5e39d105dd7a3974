// A part of a parsed document as JSON text again.
#pragma once

#include <string>

#include "io/json.h"

namespace sluice {

// Compact, members in the order of the document. Numbers keep their value, and whether they are
// whole. Nested at most as deep as Json::parse allows.
std::string json_text(const Json& value);

}  // namespace sluice
