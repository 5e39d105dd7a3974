#include "tools/api/chat_messages.h"

#include <utility>

#include "io/text.h"
#include "tools/api/content.h"

namespace sluice {

namespace {

Result<ToolCall> read_call(const Json& json) {
    const Json type = json["type"];
    if (!type.is_null() && text_of(type).value_or("") != "function") {
        return fail(Code::unsupported, cat(type.path(), ": only function is supported"));
    }
    ToolCall call;
    if (auto done = store(text_of(json["function"]["name"]), call.name); !done) {
        return tl::unexpected(done.error());
    }
    if (auto done = store(read_arguments(json["function"]["arguments"]), call.arguments); !done) {
        return tl::unexpected(done.error());
    }
    if (json["id"].is_null()) return call;
    if (auto done = store(text_of(json["id"]), call.id); !done) {
        return tl::unexpected(done.error());
    }
    return call;
}

Result<void> read_calls(const Json& value, Message& message) {
    if (value.is_null()) return {};
    if (!value.is_array()) return bad_value(value, "a list of tool calls");
    for (size_t i = 0; i < value.size(); ++i) {
        auto call = read_call(value.at(i));
        if (!call) return tl::unexpected(std::move(call).error());
        message.calls.push_back(std::move(*call));
    }
    return {};
}

Result<void> read_assistant(const Json& json, Message& message) {
    for (const char* refused : {"audio", "function_call"}) {
        const Json value = json[refused];
        if (!value.is_null()) return fail(Code::unsupported, cat(value.path(), ": not supported"));
    }
    for (const char* name : {"reasoning_content", "reasoning"}) {
        const Json value = json[name];
        if (value.is_null() || !message.reasoning.empty()) continue;
        if (auto done = store(text_of(value), message.reasoning); !done) return done;
    }
    return read_calls(json["tool_calls"], message);
}

Result<Role> read_role(const Json& value) {
    const auto name = text_of(value);
    if (!name) return tl::unexpected(name.error());
    if (*name == "function") {
        return fail(Code::unsupported, cat(value.path(), ": function is not supported: use tool"));
    }
    auto role = parse_role(*name);
    if (!role) return fail(Code::usage, cat(value.path(), ": ", role.error().message));
    return role;
}

Result<Message> read_message(const Json& json) {
    const auto role = read_role(json["role"]);
    if (!role) return tl::unexpected(role.error());
    Message message{*role, ""};
    const Json content = json["content"];
    const bool may_lack = *role == Role::assistant || *role == Role::tool;
    if (!content.is_null() || !may_lack) {
        auto text = read_content(content, {{"text", "text"}, {"refusal", "refusal"}});
        if (!text) return tl::unexpected(std::move(text).error());
        message.content = std::move(*text);
    }
    if (*role == Role::assistant) {
        if (auto done = read_assistant(json, message); !done) return tl::unexpected(done.error());
    }
    const Json call_id = json["tool_call_id"];
    if (*role == Role::tool && !call_id.is_null()) {
        if (auto done = store(text_of(call_id), message.call_id); !done) {
            return tl::unexpected(done.error());
        }
    }
    return message;
}

}  // namespace

Result<void> read_chat_messages(const Json& value, Draft& draft) {
    if (!value.is_array()) return bad_value(value, "a list of messages");
    for (size_t i = 0; i < value.size(); ++i) {
        auto message = read_message(value.at(i));
        if (!message) return tl::unexpected(std::move(message).error());
        draft.answer().messages.push_back(std::move(*message));
        const Json prefix = value.at(i)["prefix"];
        draft.may_continue = false;
        if (prefix.is_null()) continue;
        if (auto done = store(truth(prefix), draft.may_continue); !done) return done;
    }
    return {};
}

}  // namespace sluice
