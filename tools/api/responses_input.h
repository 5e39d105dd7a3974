// The input of /v1/responses: a text, or a list of items that become messages.
#pragma once

#include "tools/api/fields.h"

namespace sluice {

// Items: message (or none: a role and content), function_call, function_call_output, reasoning.
// Reasoning, a text and calls that follow one another are one message of the assistant's.
Result<void> read_input(const Json& value, Draft& draft);

}  // namespace sluice
