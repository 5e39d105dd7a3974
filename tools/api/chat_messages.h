// The messages of /v1/chat/completions.
#pragma once

#include "tools/api/fields.h"

namespace sluice {

// Roles system, developer, user, assistant, tool and latest_reminder. Content is a string or a
// list of text parts, or null for an assistant that called tools. Names of participants are not
// shown to the model. A last message with `prefix`: true is one to continue.
Result<void> read_chat_messages(const Json& value, Draft& draft);

}  // namespace sluice
