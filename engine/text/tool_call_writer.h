// Writes the tool calls of an assistant's turn as the model writes them (tool_syntax.h).
#pragma once

#include <vector>

#include "engine/text/prompt_writer.h"
#include "engine/text/tool_syntax.h"
#include "io/error.h"

namespace sluice {

// Nothing if there are no calls. usage, naming the call: its arguments are no JSON object ("" is an
// empty one), or it has no name. Values that are no strings are written as Python writes them.
Result<void> write_calls(PromptWriter& out, const ToolSyntax& syntax,
                         const std::vector<ToolCall>& calls);

}  // namespace sluice
