#include "engine/text/prompt.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "io/text.h"

namespace sluice {
namespace {

constexpr std::string_view system_token = "<｜System｜>", user_token = "<｜User｜>",
                           assistant_token = "<｜Assistant｜>",
                           reminder_token = "<｜latest_reminder｜>", open_think = "<think>",
                           close_think = "</think>";
constexpr int effort_min = 1, effort_max = 100;

constexpr std::array<std::pair<std::string_view, Role>, 6> role_names{
    {{"system", Role::system},
     {"developer", Role::system},
     {"user", Role::user},
     {"assistant", Role::assistant},
     {"tool", Role::tool},
     {"latest_reminder", Role::latest_reminder}}};

std::string_view name_of(Role role) {
    for (const auto& [name, known] : role_names) {
        if (known == role) return name;
    }
    return "unknown role";
}

// Collects ids, and the text since the last control token.
class Writer {
 public:
    explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

    void text(std::string_view part) { text_ += part; }
    void control(std::string_view name) {
        flush();
        const auto id = tokenizer_.id(name);
        if (id)
            ids_.push_back(*id);
        else if (missing_.empty())
            missing_ = name;
    }
    Result<std::vector<int32_t>> take() {
        flush();
        if (missing_.empty()) return std::move(ids_);
        return fail(
            Code::unsupported,
            cat(printable(tokenizer_.source()), " has no token '", missing_,
                "', which the chat encoding needs: this model supports --verify, but not chat"));
    }

 private:
    void flush() {
        const auto ids = tokenizer_.encode(text_);
        ids_.insert(ids_.end(), ids.begin(), ids.end());
        text_.clear();
    }

    const Tokenizer& tokenizer_;
    std::vector<int32_t> ids_;
    std::string text_, missing_;
};

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
        const bool thinking = options_.mode == PromptMode::thinking;
        out_.control(begin_token);
        if (thinking || messages_[0].role == Role::system) out_.control(system_token);
        if (thinking)
            out_.text(cat("Reasoning Effort: ", options_.effort,
                          " (range 1-100, the higher the value, the more thorough the "
                          "reasoning)\n\n"));
        for (size_t i = 0; i < messages_.size(); ++i) {
            message(i);
            const bool answered =
                i + 1 == messages_.size() || messages_[i + 1].role == Role::assistant;
            if (is_question(i) && answered) {
                out_.control(assistant_token);
                out_.control(keeps_reasoning(i) ? open_think : close_think);
            }
        }
        return out_.take();
    }

 private:
    // What an assistant can answer: anything but the leading system message and reminders.
    bool is_question(size_t i) const {
        const Role role = messages_[i].role;
        return role == Role::user || role == Role::tool || (role == Role::system && i > 0);
    }

    // `i` is an answer, or the question before it.
    bool keeps_reasoning(size_t i) const {
        return options_.mode == PromptMode::thinking &&
               (!options_.drop_thinking || !last_question_ || i >= *last_question_);
    }

    void message(size_t i) {
        const Message& message = messages_[i];
        switch (message.role) {
            case Role::system:
                if (i > 0) out_.control(system_token);
                out_.text(message.content);
                in_tool_turn_ = false;
                break;
            case Role::user:
                open_user_turn(false);
                out_.text(message.content);
                break;
            case Role::tool:
                open_user_turn(true);
                out_.text(cat("<tool_result>", message.content, "</tool_result>"));
                break;
            case Role::assistant:
                if (keeps_reasoning(i)) {
                    out_.text(message.reasoning);
                    out_.control(close_think);
                }
                out_.text(message.content);
                out_.control(end_token);
                in_tool_turn_ = false;
                break;
            case Role::latest_reminder:
                out_.control(reminder_token);
                out_.text(message.content);
                in_tool_turn_ = false;
                break;
        }
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
    Writer out_;
    std::optional<size_t> last_question_;
    bool in_tool_turn_ = false;
};

Result<void> check_messages(const std::vector<Message>& messages, const PromptOptions& options) {
    if (messages.empty()) return fail(Code::usage, "no messages: give at least one");
    if (options.effort < effort_min || options.effort > effort_max)
        return fail(Code::usage, cat("reasoning effort ", options.effort,
                                     " is out of range: it must be 1 to 100"));
    const Role last = messages.back().role;
    const bool lone_system = last == Role::system && messages.size() == 1;
    if (lone_system || last == Role::latest_reminder)
        return fail(Code::usage, cat("message ", messages.size(), " (", name_of(last),
                                     ") has nothing to answer: a user message must follow"));
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
