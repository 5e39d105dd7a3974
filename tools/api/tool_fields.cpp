#include "tools/api/tool_fields.h"

#include <algorithm>
#include <utility>

#include "engine/text/python_json.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr size_t tools_max = 512, name_bytes_max = 128;

// Names become part of the prompt's syntax.
bool fit_for_a_name(std::string_view text) {
    return !text.empty() && text.size() <= name_bytes_max &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      std::string_view("_-.:/").find(c) != std::string_view::npos;
           });
}

}  // namespace

Result<void> declare_tool(const Json& name, const Json& parameters, std::string declaration,
                          Draft& draft) {
    auto text = text_of(name);
    if (!text) return tl::unexpected(std::move(text).error());
    if (!fit_for_a_name(*text)) {
        return bad_value(name, cat("1 to ", name_bytes_max, " letters, digits or _ - . : /"));
    }
    if (!parameters.is_null() && !parameters.is_object()) {
        return bad_value(parameters, "a JSON schema, which is an object");
    }
    if (draft.declared.size() == tools_max) {
        return fail(Code::usage, cat("tools: at most ", tools_max, " are read"));
    }
    if (std::find(draft.declared.begin(), draft.declared.end(), *text) != draft.declared.end()) {
        return fail(Code::usage, cat(name.path(), ": ", *text, " is declared twice"));
    }
    draft.declared.push_back(std::move(*text));
    draft.answer().tools.push_back(std::move(declaration));
    return {};
}

Result<void> choose_by_word(const Json& value, std::string_view word,
                            std::string_view required_word, Draft& draft) {
    ToolChoice& choice = draft.answer().tool_choice;
    if (word == "auto") {
        choice = ToolChoice::automatic;
    } else if (word == "none") {
        choice = ToolChoice::none;
    } else if (word == required_word) {
        choice = ToolChoice::required;
    } else {
        return bad_value(value, cat("auto, none, ", required_word, " or a tool, found \"",
                                    printable(word), "\""));
    }
    return {};
}

Result<void> choose_tool(const Json& name, Draft& draft) {
    draft.answer().tool_choice = ToolChoice::required;
    return store(text_of(name), draft.answer().tool_name);
}

Result<void> read_tool_choice(const Json& value, Draft& draft) {
    if (!value.is_object()) {
        const auto word = text_of(value);
        if (!word) return bad_value(value, "auto, none, required or a tool");
        return choose_by_word(value, *word, "required", draft);
    }
    const Json type = value["type"];
    const auto kind = text_of(type);
    if (!kind) return tl::unexpected(kind.error());
    if (*kind != "function") {
        return fail(Code::unsupported, cat(type.path(), ": only function is supported"));
    }
    const Json nested = value["function"];
    return choose_tool(nested.is_object() ? nested["name"] : value["name"], draft);
}

Result<void> read_parallel_calls(const Json& value, Draft& draft) {
    return store(truth(value), draft.out.parallel_calls);
}

Result<void> set_schema(const Json& schema, Draft& draft) {
    if (!schema.is_object()) return bad_value(schema, "a JSON schema, which is an object");
    draft.answer().format = ResponseFormat::json_schema;
    draft.answer().schema = python_json(schema);
    return {};
}

Result<void> read_format(const Json& value, Draft& draft) {
    const Json type = value["type"];
    const auto name = text_of(type);
    if (!name) return tl::unexpected(name.error());
    ResponseFormat& format = draft.answer().format;
    if (*name == "text") {
        format = ResponseFormat::text;
    } else if (*name == "json_object") {
        format = ResponseFormat::json_object;
    } else if (*name == "json_schema") {
        const Json nested = value["json_schema"];
        return set_schema((nested.is_object() ? nested : value)["schema"], draft);
    } else {
        return bad_value(type,
                         cat("text, json_object or json_schema, found \"", printable(*name), "\""));
    }
    return {};
}

Result<void> check_tools(const Draft& draft) {
    const AnswerRequest& answer = draft.out.answer;
    if (answer.tool_choice != ToolChoice::required) return {};
    if (draft.declared.empty()) {
        return fail(Code::usage, "tool_choice: requires a tool, but tools is empty");
    }
    const bool known = answer.tool_name.empty() ||
                       std::find(draft.declared.begin(), draft.declared.end(), answer.tool_name) !=
                           draft.declared.end();
    if (known) return {};
    return fail(Code::usage,
                cat("tool_choice: ", printable(answer.tool_name), " is not one of the tools"));
}

}  // namespace sluice
