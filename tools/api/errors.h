// Errors in each API's form, for any HTTP status.
#pragma once

#include <string>
#include <string_view>

#include "tools/answer/json_writer.h"

namespace sluice {

// {"error": {"message", "type", "param", "code"}}. param: the field that the message begins with.
std::string openai_error(int status, std::string_view message);
// The object inside.
void write_openai_error(JsonWriter& json, int status, std::string_view message);

// {"type": "error", "error": {"type", "message"}}
std::string anthropic_error(int status, std::string_view message);

}  // namespace sluice
