#include "tools/answer/messages.h"

#include "io/json.h"
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

Result<Message> parse_message(const Json& json) {
    auto role_text = text_member(json, "role", true);
    if (!role_text) return tl::unexpected(role_text.error());
    auto role = parse_role(*role_text);
    if (!role) return tl::unexpected(role.error());
    auto content = text_member(json, "content", true);
    if (!content) return tl::unexpected(content.error());
    auto reasoning = text_member(json, "reasoning", false);
    if (!reasoning) return tl::unexpected(reasoning.error());
    return Message{*role, std::move(*content), std::move(*reasoning)};
}

}  // namespace

const char* role_name(Role role) {
    switch (role) {
        case Role::system:
            return "system";
        case Role::user:
            return "user";
        case Role::assistant:
            return "assistant";
        case Role::tool:
            return "tool";
        case Role::latest_reminder:
            return "latest_reminder";
    }
    return "user";
}

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
        auto message = parse_message(list.at(i));
        if (!message) {
            return fail(Code::usage, cat(where, ": message ", i, ": ", message.error().message));
        }
        out.push_back(std::move(*message));
    }
    return out;
}

std::string messages_json(const std::vector<Message>& messages) {
    JsonWriter json;
    json.begin_object().key("messages").begin_array();
    for (const auto& message : messages) {
        json.begin_object()
            .member("role", role_name(message.role))
            .member("content", message.content);
        if (!message.reasoning.empty()) json.member("reasoning", message.reasoning);
        json.end_object();
    }
    json.end_array().end_object();
    return json.text() + "\n";
}

}  // namespace sluice
