#include "tools/api/anthropic_messages.h"

#include <utility>

#include "engine/text/python_json.h"
#include "io/text.h"
#include "tools/api/content.h"

namespace sluice {

namespace {

constexpr TextPart text_block{"text", "text"};

Result<Message> read_result(const Json& block) {
    Message message{Role::tool, ""};
    if (auto done = store(text_of(block["tool_use_id"]), message.call_id); !done) {
        return tl::unexpected(done.error());
    }
    const Json content = block["content"];
    if (content.is_null()) return message;
    if (auto done = store(read_content(content, {text_block}), message.content); !done) {
        return tl::unexpected(done.error());
    }
    return message;
}

Result<void> read_user_block(const Json& block, std::vector<Message>& messages) {
    const auto type = text_of(block["type"]);
    if (!type) return tl::unexpected(type.error());
    if (*type == "tool_result") {
        auto message = read_result(block);
        if (!message) return tl::unexpected(std::move(message).error());
        messages.push_back(std::move(*message));
        return {};
    }
    if (*type != "text") return unread_part(block, *type);
    const auto text = text_of(block["text"]);
    if (!text) return tl::unexpected(text.error());
    if (messages.empty() || messages.back().role != Role::user) {
        messages.push_back({Role::user, ""});
    }
    add_text(*text, messages.back().content);
    return {};
}

Result<void> read_user(const Json& content, Draft& draft) {
    std::vector<Message> messages;
    if (!content.is_array()) {
        auto text = read_content(content, {text_block});
        if (!text) return tl::unexpected(std::move(text).error());
        messages.push_back({Role::user, std::move(*text)});
    }
    for (size_t i = 0; i < content.size(); ++i) {
        if (auto done = read_user_block(content.at(i), messages); !done) return done;
    }
    if (messages.empty()) return bad_value(content, "at least one block");
    auto& all = draft.answer().messages;
    all.insert(all.end(), messages.begin(), messages.end());
    return {};
}

Result<void> read_call(const Json& block, Message& message) {
    ToolCall call;
    if (auto done = store(text_of(block["id"]), call.id); !done) return done;
    if (auto done = store(text_of(block["name"]), call.name); !done) return done;
    const Json input = block["input"];
    if (!input.is_object()) return bad_value(input, "an object");
    call.arguments = python_json(input);
    message.calls.push_back(std::move(call));
    return {};
}

Result<void> read_assistant_block(const Json& block, Message& message) {
    const auto type = text_of(block["type"]);
    if (!type) return tl::unexpected(type.error());
    if (*type == "tool_use") return read_call(block, message);
    if (*type == "redacted_thinking") return {};
    const bool thought = *type == "thinking";
    if (!thought && *type != "text") return unread_part(block, *type);
    const auto text = text_of(block[*type]);
    if (!text) return tl::unexpected(text.error());
    add_text(*text, thought ? message.reasoning : message.content);
    return {};
}

Result<void> read_assistant(const Json& content, Draft& draft) {
    Message message{Role::assistant, ""};
    if (!content.is_array()) {
        auto text = read_content(content, {text_block});
        if (auto done = store(std::move(text), message.content); !done) return done;
    }
    for (size_t i = 0; i < content.size(); ++i) {
        if (auto done = read_assistant_block(content.at(i), message); !done) return done;
    }
    draft.answer().messages.push_back(std::move(message));
    return {};
}

Result<void> read_message(const Json& json, Draft& draft) {
    const Json role = json["role"];
    const auto name = text_of(role);
    if (!name) return tl::unexpected(name.error());
    if (*name == "user") return read_user(json["content"], draft);
    if (*name == "assistant") return read_assistant(json["content"], draft);
    if (*name != "system") {
        return bad_value(role, cat("user, assistant or system, found \"", printable(*name), "\""));
    }
    auto text = read_content(json["content"], {text_block});
    if (!text) return tl::unexpected(std::move(text).error());
    draft.answer().messages.push_back({Role::system, std::move(*text)});
    return {};
}

}  // namespace

Result<void> read_anthropic_messages(const Json& value, Draft& draft) {
    if (!value.is_array()) return bad_value(value, "a list of messages");
    for (size_t i = 0; i < value.size(); ++i) {
        if (auto done = read_message(value.at(i), draft); !done) return done;
    }
    return {};
}

Result<void> read_system(const Json& value, Draft& draft) {
    return store(read_content(value, {text_block}), draft.instructions);
}

}  // namespace sluice
