// Conversations as JSON, in the form of OpenAI's chat completions: a list of
//
//     {"role", "content", "reasoning", "tool_calls", "tool_call_id", "task"}
//
// Only the role is always needed; the content too, unless there are tool calls. The content is a
// string, or a list of {"type": "text", "text"}, which are joined by an empty line.
// "reasoning_content" is another name of "reasoning". A tool call is {"id", "type": "function",
// "function": {"name", "arguments"}}; its arguments are a JSON object, or the text of one. Other
// members are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/prompt.h"
#include "io/error.h"
#include "io/json.h"
#include "tools/answer/json_writer.h"

namespace sluice {

// `text` is the list itself, or an object with a member "messages". An error (usage) names `where`
// and the number of the message.
Result<std::vector<Message>> parse_messages(std::string_view where, std::string_view text);
// A message or an answer's, for the list above or a format that contains it. Errors (corrupt) name
// the member.
Result<Message> parse_message(const Json& json);
// The text of a "content" member; null is empty.
Result<std::string> parse_content(const Json& content);
void write_messages(JsonWriter& json, const std::vector<Message>& messages);
// The object, ended by a line feed.
std::string messages_json(const std::vector<Message>& messages);

}  // namespace sluice
