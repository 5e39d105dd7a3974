#include "engine/text/tool_syntax.h"

#include "engine/text/prompt_writer.h"
#include "io/text.h"

namespace sluice {

Result<std::vector<int32_t>> forced_call_prefix(const Tokenizer& tokenizer,
                                                const ToolSyntax& syntax, std::string_view name) {
    PromptWriter out(tokenizer);
    out.text("\n\n<");
    out.control(syntax.marker);
    out.text(cat(syntax.calls, ">\n<"));
    out.control(syntax.marker);
    out.text(cat(syntax.invoke, " name=\""));
    if (!name.empty()) out.text(cat(name, "\">\n"));
    return out.take("tool calls need: this model does not support tools");
}

}  // namespace sluice
