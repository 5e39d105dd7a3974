#include "engine/text/tool_call_writer.h"

#include <utility>

#include "engine/text/python_json.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice {

namespace {

Result<Json> read_arguments(const ToolCall& call) {
    auto json = Json::parse(call.arguments.empty() ? "{}" : call.arguments);
    if (json && json->is_object()) return json;
    return fail(Code::usage, cat("the arguments are not a JSON object",
                                 json ? "" : cat(": ", json.error().message)));
}

class CallWriter {
 public:
    CallWriter(PromptWriter& out, const ToolSyntax& syntax) : out_(out), syntax_(syntax) {}

    void open(std::string_view tag, std::string_view rest) {
        out_.text("<");
        out_.control(syntax_.marker);
        out_.text(cat(tag, rest, ">"));
    }
    void close(std::string_view tag) {
        out_.text("</");
        out_.control(syntax_.marker);
        out_.text(cat(tag, ">"));
    }

    void invoke(const ToolCall& call, const Json& arguments) {
        open(syntax_.invoke, cat(" name=\"", call.name, "\""));
        if (arguments.size() == 0) out_.text("\n");
        arguments.each_member([&](std::string_view key, const Json& value) {
            out_.text("\n");
            parameter(key, value);
            return true;
        });
        out_.text("\n");
        close(syntax_.invoke);
        out_.text("\n");
    }

 private:
    void parameter(std::string_view key, const Json& value) {
        const auto string = value.string();
        open(syntax_.parameter,
             cat(" name=\"", key, "\" string=\"", string ? "true" : "false", "\""));
        out_.text(string ? *string : python_json(value));
        close(syntax_.parameter);
    }

    PromptWriter& out_;
    const ToolSyntax& syntax_;
};

}  // namespace

Result<void> write_calls(PromptWriter& out, const ToolSyntax& syntax,
                         const std::vector<ToolCall>& calls) {
    if (calls.empty()) return {};
    CallWriter writer(out, syntax);
    out.text("\n\n");
    writer.open(syntax.calls, "");
    out.text("\n");
    for (size_t i = 0; i < calls.size(); ++i) {
        const std::string which = cat("tool call ", i + 1, " (", printable(calls[i].name), ")");
        if (calls[i].name.empty()) return fail(Code::usage, cat(which, ": it has no name"));
        const auto arguments = read_arguments(calls[i]);
        if (!arguments) return within(which, arguments.error());
        writer.invoke(calls[i], *arguments);
    }
    writer.close(syntax.calls);
    return {};
}

}  // namespace sluice
