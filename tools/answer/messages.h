// Conversations as JSON: a list of {"role", "content", "reasoning"}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/prompt.h"
#include "io/error.h"

namespace sluice {

const char* role_name(Role role);  // "user"
// `text` is the list itself, or an object with a member "messages". An error (usage) names `where`
// and the number of the message.
Result<std::vector<Message>> parse_messages(std::string_view where, std::string_view text);
std::string messages_json(const std::vector<Message>& messages);

}  // namespace sluice
