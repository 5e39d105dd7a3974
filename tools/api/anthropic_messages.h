// The messages of /v1/messages.
#pragma once

#include "tools/api/fields.h"

namespace sluice {

// Roles user, assistant and system. Content is a string or a list of blocks: text; the user's
// tool_result; the assistant's thinking, redacted_thinking (dropped) and tool_use. The results in a
// user's message become tool messages, in the order given.
Result<void> read_anthropic_messages(const Json& value, Draft& draft);
// A string or text blocks, before all messages.
Result<void> read_system(const Json& value, Draft& draft);

}  // namespace sluice
