#include "engine/text/prompt.h"

#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

#include "engine/text/prompt_writer.h"
#include "engine/text/python_json.h"
#include "engine/text/tool_call_writer.h"
#include "engine/text/tool_results.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr std::string_view system_token = "<｜System｜>", user_token = "<｜User｜>",
                           assistant_token = "<｜Assistant｜>",
                           reminder_token = "<｜latest_reminder｜>", open_think = "<think>",
                           close_think = "</think>";
constexpr int effort_min = 1, effort_max = 100;

constexpr std::string_view chat_needs =
    "the chat encoding needs: this model supports --verify, but not chat";
constexpr std::string_view tools_need = "tool calls need: this model does not support tools";

constexpr std::array<std::pair<const char*, Role>, 6> role_names{
    {{"system", Role::system},
     {"developer", Role::system},
     {"user", Role::user},
     {"assistant", Role::assistant},
     {"tool", Role::tool},
     {"latest_reminder", Role::latest_reminder}}};

bool needs_wording(const PromptOptions& options) {
    return !options.tools.empty() || !options.response_format.empty();
}

// What an assistant can answer: anything but the leading system message and reminders.
bool is_question(const std::vector<Message>& messages, size_t i) {
    const Role role = messages[i].role;
    return role == Role::user || role == Role::tool || (role == Role::system && i > 0);
}

class ChatEncoder {
 public:
    ChatEncoder(const Tokenizer& tokenizer, const std::vector<Message>& messages,
                const PromptOptions& options)
        : messages_(messages), options_(options), out_(tokenizer) {
        for (size_t i = 0; i < messages.size(); ++i) {
            if (is_question(i)) last_question_ = i;
        }
    }

    Result<std::vector<int32_t>> run() {
        auto order = order_results(messages_);
        if (!order) return tl::unexpected(std::move(order).error());
        if (auto fine = head(); !fine) return tl::unexpected(std::move(fine).error());
        for (size_t i = 0; i < messages_.size(); ++i) {
            if (i == 0 && messages_[0].role == Role::system) continue;
            const size_t shown = (*order)[i];
            if (auto fine = message(shown); !fine)
                return within(message_name(messages_, shown), std::move(fine).error());
            const bool answered =
                i + 1 == messages_.size() || messages_[i + 1].role == Role::assistant;
            if (is_question(i) && answered) {
                out_.control(assistant_token);
                out_.control(keeps_reasoning(i) ? open_think : close_think);
            }
        }
        return out_.take(out_.missing() == options_.syntax->marker ? tools_need : chat_needs);
    }

 private:
    // Everything before the first turn.
    Result<void> head() {
        const bool thinking = options_.mode == PromptMode::thinking;
        const bool system = messages_[0].role == Role::system;
        out_.control(begin_token);
        if (thinking || system || needs_wording(options_)) out_.control(system_token);
        if (thinking)
            out_.text(cat("Reasoning Effort: ", options_.effort,
                          " (range 1-100, the higher the value, the more thorough the "
                          "reasoning)\n\n"));
        if (system) out_.text(messages_[0].content);
        if (auto fine = tool_block(); !fine) return fine;
        return response_format();
    }

    Result<void> tool_block() {
        if (options_.tools.empty()) return {};
        out_.require(options_.syntax->marker);
        auto text = options_.wording->tool_block();
        if (!text) return tl::unexpected(std::move(text).error());
        std::string schemas;
        for (const Json& tool : options_.tools)
            schemas += cat(schemas.empty() ? "" : "\n", python_json(tool));
        return fill(*text, {{"tool_schemas", schemas, false, true},
                            {"dsml_token", options_.syntax->marker, true},
                            {"thinking_start_token", open_think, true},
                            {"thinking_end_token", close_think, true}});
    }

    Result<void> response_format() {
        if (options_.response_format.empty()) return {};
        auto text = options_.wording->response_format();
        if (!text) return tl::unexpected(std::move(text).error());
        return fill(*text, {{"schema", options_.response_format, false, true}});
    }

    Result<void> fill(const TextTemplate& text, std::initializer_list<TextTemplate::Field> fields) {
        auto segments = text.fill({fields.begin(), fields.size()});
        if (!segments) return tl::unexpected(std::move(segments).error());
        out_.text("\n\n");
        for (const auto& segment : *segments)
            segment.wording ? out_.wording(segment.text) : out_.text(segment.text);
        return {};
    }

    bool is_question(size_t i) const { return sluice::is_question(messages_, i); }

    // `i` is an answer, or the question before it.
    bool keeps_reasoning(size_t i) const {
        return options_.mode == PromptMode::thinking &&
               (!options_.drop_thinking || !options_.tools.empty() || !last_question_ ||
                i >= *last_question_);
    }

    Result<void> message(size_t i) {
        const Message& message = messages_[i];
        switch (message.role) {
            case Role::system:
                out_.control(system_token);
                out_.text(message.content);
                in_tool_turn_ = false;
                break;
            case Role::user:
                open_user_turn(false);
                out_.text(message.content);
                break;
            case Role::tool:
                open_user_turn(true);
                out_.text(options_.syntax->result_begin);
                out_.text(message.content);
                out_.text(options_.syntax->result_end);
                break;
            case Role::assistant:
                if (keeps_reasoning(i)) {
                    out_.text(message.reasoning);
                    out_.control(close_think);
                }
                out_.text(message.content);
                if (auto fine = write_calls(out_, *options_.syntax, message.calls); !fine)
                    return fine;
                if (!options_.continue_last || i + 1 < messages_.size()) out_.control(end_token);
                in_tool_turn_ = false;
                break;
            case Role::latest_reminder:
                out_.control(reminder_token);
                out_.text(message.content);
                in_tool_turn_ = false;
                break;
        }
        return {};
    }

    void open_user_turn(bool tool) {
        if (in_tool_turn_)
            out_.text("\n\n");
        else
            out_.control(user_token);
        in_tool_turn_ = in_tool_turn_ || tool;
    }

    const std::vector<Message>& messages_;
    const PromptOptions& options_;
    PromptWriter out_;
    std::optional<size_t> last_question_;
    bool in_tool_turn_ = false;
};

Result<void> check_continued(const std::vector<Message>& messages) {
    const size_t last = messages.size() - 1;
    const auto refuse = [&](const char* why) {
        return fail(Code::usage, cat(message_name(messages, last), " cannot be continued: ", why));
    };
    if (messages[last].role != Role::assistant) return refuse("it is not an assistant's");
    if (!messages[last].calls.empty()) return refuse("its tool calls need results");
    if (last == 0 || !is_question(messages, last - 1)) return refuse("no question is before it");
    return {};
}

Result<void> check_messages(const std::vector<Message>& messages, const PromptOptions& options) {
    if (messages.empty()) return fail(Code::usage, "no messages: give at least one");
    if (options.effort < effort_min || options.effort > effort_max)
        return fail(Code::usage, cat("reasoning effort ", options.effort,
                                     " is out of range: it must be 1 to 100"));
    const Role last = messages.back().role;
    const bool lone_system = last == Role::system && messages.size() == 1;
    if (lone_system || last == Role::latest_reminder)
        return fail(Code::usage, cat(message_name(messages, messages.size() - 1),
                                     " has nothing to answer: a user message must follow"));
    if (options.continue_last) {
        if (auto fine = check_continued(messages); !fine) return fine;
    }
    for (size_t i = 0; i < options.tools.size(); ++i) {
        if (options.tools[i].is_object() && options.tools[i]["name"].is_string()) continue;
        return fail(Code::usage, cat("tool ", i + 1, ": expected an object with a name"));
    }
    if (needs_wording(options) && options.wording == nullptr)
        return fail(Code::not_found,
                    "tools and response formats need the model's own texts, "
                    "encoding/encoding*.py in its folder");
    return {};
}

}  // namespace

Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer,
                                         const std::vector<Message>& messages,
                                         const PromptOptions& options) {
    if (auto ok = check_messages(messages, options); !ok)
        return tl::unexpected(std::move(ok).error());
    return ChatEncoder(tokenizer, messages, options).run();
}

const char* role_name(Role role) {
    for (const auto& [name, known] : role_names) {
        if (known == role) return name;
    }
    return "user";
}

Result<int> parse_effort(std::string_view text) {
    if (text == "low") return 50;
    if (text == "high") return 75;
    if (text == "max") return effort_max;
    int effort = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), effort);
    if (error != std::errc() || end != text.data() + text.size() || effort < effort_min ||
        effort > effort_max)
        return fail(Code::usage, cat("reasoning effort '", printable(text),
                                     "' is not low, high, max or a whole number from 1 to 100"));
    return effort;
}

Result<Role> parse_role(std::string_view text) {
    std::string names;
    for (const auto& [name, role] : role_names) {
        if (name == text) return role;
        names += cat(names.empty() ? "" : ", ", name);
    }
    return fail(Code::usage, cat("role '", printable(text), "' is not one of ", names));
}

}  // namespace sluice
