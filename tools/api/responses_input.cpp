#include "tools/api/responses_input.h"

#include <utility>

#include "io/text.h"
#include "tools/api/content.h"

namespace sluice {

namespace {

// The assistant's message that items still add to.
Message& assistant(Draft& draft) {
    auto& messages = draft.answer().messages;
    if (messages.empty() || messages.back().role != Role::assistant) {
        messages.push_back({Role::assistant, ""});
    }
    return messages.back();
}

Result<void> read_message(const Json& item, Draft& draft) {
    const auto name = text_of(item["role"]);
    if (!name) return tl::unexpected(name.error());
    const auto role = parse_role(*name);
    if (!role) return fail(Code::usage, cat(item["role"].path(), ": ", role.error().message));
    auto content = read_content(item["content"], {{"input_text", "text"},
                                                  {"output_text", "text"},
                                                  {"text", "text"},
                                                  {"refusal", "refusal"}});
    if (!content) return tl::unexpected(std::move(content).error());
    if (*role == Role::assistant) {
        add_text(*content, assistant(draft).content);
    } else {
        draft.answer().messages.push_back({*role, std::move(*content)});
    }
    return {};
}

Result<void> read_call(const Json& item, Draft& draft) {
    ToolCall call;
    if (auto done = store(text_of(item["name"]), call.name); !done) return done;
    if (auto done = store(text_of(item["call_id"]), call.id); !done) return done;
    if (auto done = store(read_arguments(item["arguments"]), call.arguments); !done) return done;
    assistant(draft).calls.push_back(std::move(call));
    return {};
}

Result<void> read_call_output(const Json& item, Draft& draft) {
    Message message{Role::tool, ""};
    auto output = read_content(item["output"], {{"input_text", "text"}, {"output_text", "text"}});
    if (auto done = store(std::move(output), message.content); !done) return done;
    if (!item["call_id"].is_null()) {
        if (auto done = store(text_of(item["call_id"]), message.call_id); !done) return done;
    }
    draft.answer().messages.push_back(std::move(message));
    return {};
}

// The summary of an item that this server wrote is empty.
Result<void> read_reasoning(const Json& item, Draft& draft) {
    for (const char* name : {"summary", "content"}) {
        if (item[name].is_null()) continue;
        const auto text =
            read_content(item[name], {{"reasoning_text", "text"}, {"summary_text", "text"}});
        if (!text) return tl::unexpected(text.error());
        add_text(*text, assistant(draft).reasoning);
    }
    return {};
}

Result<void> read_item(const Json& item, Draft& draft) {
    const Json type = item["type"];
    if (type.is_null()) return read_message(item, draft);
    const auto name = text_of(type);
    if (!name) return tl::unexpected(name.error());
    if (*name == "message") return read_message(item, draft);
    if (*name == "function_call") return read_call(item, draft);
    if (*name == "function_call_output") return read_call_output(item, draft);
    if (*name == "reasoning") return read_reasoning(item, draft);
    return fail(Code::unsupported, cat(type.path(), ": ", printable(*name),
                                       " is not supported: only message, "
                                       "function_call, function_call_output and reasoning"));
}

}  // namespace

Result<void> read_input(const Json& value, Draft& draft) {
    if (value.is_string()) {
        draft.answer().messages.push_back({Role::user, text_of(value).value_or("")});
        return {};
    }
    if (!value.is_array()) return bad_value(value, "a string or a list of items");
    for (size_t i = 0; i < value.size(); ++i) {
        if (auto done = read_item(value.at(i), draft); !done) return done;
    }
    return {};
}

}  // namespace sluice
