#include "tools/api/content.h"

#include <utility>

#include "io/text.h"

namespace sluice {

namespace {

Result<std::string> part_text(const Json& part, std::initializer_list<TextPart> parts) {
    const auto type = text_of(part["type"]);
    if (!type) return tl::unexpected(type.error());
    for (const TextPart& known : parts) {
        if (known.type == *type) return text_of(part[known.member]);
    }
    return unread_part(part, *type);
}

Result<void> continue_last(std::string_view field, Draft& draft) {
    AnswerRequest& answer = draft.answer();
    const auto refuse = [&](std::string_view why) {
        return fail(Code::unsupported, cat(field, ": the last one is the assistant's, ", why));
    };
    if (!draft.may_continue) {
        return refuse("and none is continued here: end with a user's message or a tool's result");
    }
    if (answer.format != ResponseFormat::text) {
        return refuse("and an answer that continues it cannot be held to a form");
    }
    PromptMode& mode = answer.prompt.mode;
    if (mode == PromptMode::thinking && answer.messages.back().reasoning.empty()) {
        if (draft.thinking) {
            return refuse("and an answer that continues it cannot think first: turn thinking off");
        }
        mode = PromptMode::chat;
    }
    answer.prompt.continue_last = true;
    return {};
}

}  // namespace

tl::unexpected<Error> unread_part(const Json& part, std::string_view type) {
    return fail(Code::unsupported,
                cat(part.path(), ": ", printable(type), ": only text is read here"));
}

void add_text(std::string_view text, std::string& all) {
    if (text.empty()) return;
    if (!all.empty()) all += "\n\n";
    all += text;
}

Result<std::string> read_content(const Json& value, std::initializer_list<TextPart> parts) {
    if (value.is_string()) return text_of(value);
    if (!value.is_array()) return bad_value(value, "a string or a list of parts");
    std::string all;
    for (size_t i = 0; i < value.size(); ++i) {
        const auto text = part_text(value.at(i), parts);
        if (!text) return tl::unexpected(text.error());
        add_text(*text, all);
    }
    return all;
}

Result<std::string> read_arguments(const Json& value) {
    auto text = text_of(value);
    if (!text) return text;
    if (text->empty()) return std::string("{}");
    const auto json = Json::parse(*text);
    if (!json) return bad_value(value, cat("a JSON object as text: ", json.error().message));
    if (!json->is_object()) return bad_value(value, "a JSON object as text");
    return text;
}

Result<void> close_messages(std::string_view field, Draft& draft) {
    auto& messages = draft.answer().messages;
    if (messages.empty()) return fail(Code::usage, cat(field, ": at least one is needed"));
    if (messages.back().role == Role::assistant) {
        if (auto fine = continue_last(field, draft); !fine) return fine;
    }
    if (draft.instructions.empty()) return {};
    messages.insert(messages.begin(), Message{Role::system, std::move(draft.instructions)});
    return {};
}

}  // namespace sluice
