// Tools, the choice among them, and the form of the answer: what the APIs write differently and
// AnswerRequest holds once.
#pragma once

#include <string>
#include <string_view>

#include "tools/api/fields.h"

namespace sluice {

// A function that the client declares: adds it to the request. `declaration` is the JSON object
// that the model sees: name, description, parameters. `name` and `parameters` are its parts in the
// request, for messages. usage: a name that is not 1 to 128 letters, digits or _ - . : /, one that
// is declared twice, more than 512 tools, parameters that are not an object.
Result<void> declare_tool(const Json& name, const Json& parameters, std::string declaration,
                          Draft& draft);

// A choice written as a word: auto, none, required (or `required_word`).
Result<void> choose_by_word(const Json& value, std::string_view word,
                            std::string_view required_word, Draft& draft);
// One tool by its name.
Result<void> choose_tool(const Json& name, Draft& draft);

// OpenAI's tool_choice: a word, or {"type": "function", "function": {"name"}}; in /v1/responses
// {"type": "function", "name"}.
Result<void> read_tool_choice(const Json& value, Draft& draft);
Result<void> read_parallel_calls(const Json& value, Draft& draft);

// {"type": "text" | "json_object" | "json_schema"}. The schema is in the object itself or, in chat
// completions, in its member json_schema.
Result<void> read_format(const Json& value, Draft& draft);
Result<void> set_schema(const Json& schema, Draft& draft);

// What can be checked only when all fields have been read: that the chosen tool is declared, and
// that there is a tool if one is required.
Result<void> check_tools(const Draft& draft);

}  // namespace sluice
