#include "tools/answer/messages.h"

#include <algorithm>

#include "engine/text/python_json.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"
#include "tools/options/user_text.h"

namespace sluice {

namespace {

Result<std::string> text_member(const Json& message, const char* name, bool needed) {
    Json value = message[name];
    if (value.is_null() && !needed) return std::string();
    return value.string();
}

Result<ToolCall> parse_call(const Json& json) {
    if (!json["type"].is_null()) {
        auto type = json["type"].string();
        if (!type) return tl::unexpected(type.error());
        if (*type != "function")
            return fail(Code::corrupt, cat(json["type"].path(), ": \"", printable(*type),
                                           "\" is not supported, only \"function\""));
    }
    auto id = text_member(json, "id", false);
    if (!id) return tl::unexpected(id.error());
    const Json function = json["function"];
    auto name = text_member(function, "name", true);
    if (!name) return tl::unexpected(name.error());
    const Json arguments = function["arguments"];
    if (arguments.is_object()) return ToolCall{*id, *name, python_json(arguments)};
    auto text = text_member(function, "arguments", false);
    if (!text) return tl::unexpected(text.error());
    return ToolCall{std::move(*id), std::move(*name), std::move(*text)};
}

Result<std::vector<ToolCall>> parse_calls(const Json& list) {
    std::vector<ToolCall> calls;
    if (list.is_null()) return calls;
    if (!list.is_array())
        return fail(Code::corrupt, cat(list.path(), ": expected a list of tool calls"));
    for (size_t i = 0; i < list.size(); ++i) {
        auto call = parse_call(list.at(i));
        if (!call) return tl::unexpected(call.error());
        calls.push_back(std::move(*call));
    }
    return calls;
}

void write_calls(JsonWriter& json, const std::vector<ToolCall>& calls) {
    json.key("tool_calls").begin_array();
    for (const ToolCall& call : calls) {
        json.begin_object();
        if (!call.id.empty()) json.member("id", call.id);
        json.member("type", "function").key("function").begin_object();
        json.member("name", call.name).member("arguments", call.arguments);
        json.end_object().end_object();
    }
    json.end_array();
}

}  // namespace

Result<std::string> parse_content(const Json& content) {
    if (content.is_null()) return std::string();
    if (!content.is_array()) return content.string();
    std::string text;
    for (size_t i = 0; i < content.size(); ++i) {
        const Json block = content.at(i);
        auto type = block["type"].string();
        if (!type) return tl::unexpected(type.error());
        if (*type != "text")
            return fail(Code::corrupt, cat(block["type"].path(), ": \"", printable(*type),
                                           "\" is not supported, only \"text\""));
        auto part = block["text"].string();
        if (!part) return tl::unexpected(part.error());
        text += cat(i == 0 ? "" : "\n\n", *part);
    }
    return text;
}

Result<Message> parse_message(const Json& json) {
    auto role_text = text_member(json, "role", true);
    if (!role_text) return tl::unexpected(role_text.error());
    auto role = parse_role(*role_text);
    if (!role) return tl::unexpected(role.error());
    auto calls = parse_calls(json["tool_calls"]);
    if (!calls) return tl::unexpected(calls.error());
    if (calls->empty() && json["content"].is_null())
        return tl::unexpected(json["content"].string().error());
    auto content = parse_content(json["content"]);
    if (!content) return tl::unexpected(content.error());
    const bool other_name = json["reasoning"].is_null();
    auto reasoning = text_member(json, other_name ? "reasoning_content" : "reasoning", false);
    if (!reasoning) return tl::unexpected(reasoning.error());
    auto call_id = text_member(json, "tool_call_id", false);
    if (!call_id) return tl::unexpected(call_id.error());
    auto task = text_member(json, "task", false);
    if (!task) return tl::unexpected(task.error());
    return Message{*role,
                   std::move(*content),
                   std::move(*reasoning),
                   std::move(*calls),
                   std::move(*call_id),
                   std::move(*task)};
}

namespace {

// A field that is dropped, or misspelt, would change what is asked.
Result<void> check_fields(const Json& message) {
    constexpr std::string_view known[] = {"role", "content",    "reasoning",    "reasoning_content",
                                          "name", "tool_calls", "tool_call_id", "task"};
    for (const std::string& name : message.keys()) {
        if (std::ranges::find(known, name) != std::end(known)) continue;
        if (message[name].is_null()) continue;
        return fail(Code::usage,
                    cat("unknown field \"", printable(name), "\"; a message has role, ",
                        "content, reasoning_content, tool_calls and tool_call_id"));
    }
    return {};
}

}  // namespace

Result<std::vector<Message>> parse_messages(std::string_view where, std::string_view text) {
    if (auto valid = check_utf8(where, text); !valid) return tl::unexpected(valid.error());
    auto json = Json::parse(text);
    if (!json) return fail(Code::usage, cat(where, ": ", json.error().message));
    Json list = json->is_object() ? (*json)["messages"] : *json;
    if (!list.is_array() || list.size() == 0) {
        return fail(Code::usage, cat(where, ": expected a list of messages"));
    }
    std::vector<Message> out;
    for (size_t i = 0; i < list.size(); ++i) {
        const auto fields = check_fields(list.at(i));
        auto message = fields ? parse_message(list.at(i)) : tl::unexpected(fields.error());
        if (!message) {
            return fail(Code::usage, cat(where, ": message ", i, ": ", message.error().message));
        }
        out.push_back(std::move(*message));
    }
    return out;
}

void write_messages(JsonWriter& json, const std::vector<Message>& messages) {
    json.begin_array();
    for (const auto& message : messages) {
        json.begin_object()
            .member("role", role_name(message.role))
            .member("content", message.content);
        if (!message.reasoning.empty()) json.member("reasoning", message.reasoning);
        if (!message.calls.empty()) write_calls(json, message.calls);
        if (!message.call_id.empty()) json.member("tool_call_id", message.call_id);
        if (!message.task.empty()) json.member("task", message.task);
        json.end_object();
    }
    json.end_array();
}

std::string messages_json(const std::vector<Message>& messages) {
    JsonWriter json;
    json.begin_object().key("messages");
    write_messages(json, messages);
    return json.end_object().text() + "\n";
}

}  // namespace sluice
