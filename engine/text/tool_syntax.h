// How a model writes a tool call: one control token, the marker, and words around it.
//
//     \n\n<MARKER calls>\n
//     <MARKER invoke name="NAME">\n
//     <MARKER parameter name="KEY" string="true">raw text</MARKER parameter>\n
//     <MARKER parameter name="KEY" string="false">JSON</MARKER parameter>\n
//     </MARKER invoke>\n
//     </MARKER calls>
//
// Names and values are not escaped. They need not be: the marker in them is ordinary text, and only
// the token counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

// Everything that differs between models. The words follow the marker as they are, with the space
// in front if there is one.
struct ToolSyntax {
    std::string_view marker, calls, invoke, parameter;
    std::string_view result_begin, result_end;  // around the result of a call
};

// A function that the model asks its caller to run.
struct ToolCall {
    std::string id;         // pairs the call with its result; empty: by position
    std::string name;       // "tool" or "namespace::tool"
    std::string arguments;  // the text of a JSON object
};

// The ids that an answer begins with if it has to call a tool: up to the place of the name, or,
// with a name, up to the first parameter. In thinking mode they follow the reasoning.
// unsupported: the tokenizer has no marker.
Result<std::vector<int32_t>> forced_call_prefix(const Tokenizer& tokenizer,
                                                const ToolSyntax& syntax, std::string_view name);

}  // namespace sluice
