// The order in which the results of tool calls are put into a prompt.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/text/prompt.h"
#include "io/error.h"

namespace sluice {

// "message 3 (tool)": how messages are named in errors. Counted from 1.
std::string message_name(const std::vector<Message>& messages, size_t index);

// For each place in the conversation, the index of the message to put there: results of one user
// turn that have a call_id are sorted, within the places that they have, into the order of the
// calls that they answer: those of the last assistant message with calls. All other messages stay
// where they are.
//
// usage, naming the message: a call_id that none of these calls has, or that was answered before;
// two calls of a message with the same id; calls or a call_id in a message of a role that has none.
Result<std::vector<size_t>> order_results(const std::vector<Message>& messages);

}  // namespace sluice
