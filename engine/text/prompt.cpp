#include "engine/text/prompt.h"

#include <algorithm>
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

constexpr std::string_view action_task = "action";
constexpr std::array<std::string_view, 6> tasks{action_task, "query", "authority",
                                                "domain",    "title", "read_url"};

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

bool declares(const PromptOptions& options) {
    return !options.tools.empty() || !options.response_format.empty();
}

// What an assistant can answer: anything but the leading system message and reminders.
bool is_question(const std::vector<Message>& messages, size_t i) {
    const Role role = messages[i].role;
    return role == Role::user || role == Role::tool || (role == Role::system && i > 0);
}

// What has an answer right behind it, be it one that is still to come: messages[i] is a question,
// or a reminder that begins the answer to one.
bool is_asked(const ChatFormat& format, const std::vector<Message>& messages, size_t i) {
    if (is_question(messages, i)) return true;
    return format.answer_begins_with_reminder && messages[i].role == Role::latest_reminder &&
           i > 0 && is_question(messages, i - 1);
}

class ChatEncoder {
 public:
    ChatEncoder(const Tokenizer& tokenizer, const ChatFormat& format,
                const std::vector<Message>& messages, const PromptOptions& options)
        : format_(format),
          tokens_(*format.tokens),
          messages_(messages),
          options_(options),
          out_(tokenizer) {
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
            if (is_answered(i)) header(i);
        }
        return out_.take(out_.missing() == format_.tools->marker ? tools_need : chat_needs);
    }

 private:
    // Everything before the first turn.
    Result<void> head() {
        const bool thinking = options_.mode == PromptMode::thinking;
        const bool system = messages_[0].role == Role::system;
        const bool begins = thinking || system || declares(options_);
        out_.control(tokens_.begin);
        if (begins && !format_.head_token.empty()) out_.control(format_.head_token);
        if (thinking) {
            auto effort = format_.effort(options_.effort, options_.wording);
            if (!effort) return tl::unexpected(std::move(effort).error());
            out_.wording(effort->text);
        }
        if (system) out_.text(messages_[0].content);
        if (auto fine = tool_block(); !fine) return fine;
        return response_format();
    }

    Result<void> tool_block() {
        if (options_.tools.empty()) return {};
        out_.require(format_.tools->marker);
        auto text = options_.wording->tool_block();
        if (!text) return tl::unexpected(std::move(text).error());
        std::string schemas;
        for (const Json& tool : options_.tools)
            schemas += cat(schemas.empty() ? "" : "\n", python_json(tool));
        return fill(*text, {{"tool_schemas", schemas, false, true},
                            {"dsml_token", format_.tools->marker, true},
                            {"thinking_start_token", tokens_.open_think, true},
                            {"thinking_end_token", tokens_.close_think, true}});
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

    // An answer follows, or is what the prompt is for.
    bool is_answered(size_t i) const {
        if (i + 1 == messages_.size()) return true;
        const Role next = messages_[i + 1].role;
        return next == Role::assistant ||
               (next == Role::latest_reminder && format_.answer_begins_with_reminder);
    }

    void header(size_t i) {
        const std::string& task = messages_[i].task;
        if (task.empty() ? is_question(i) : task == action_task) {
            out_.control(tokens_.assistant);
            out_.control(keeps_reasoning(i) ? tokens_.open_think : tokens_.close_think);
        }
        if (!task.empty()) out_.control(cat(tokens_.task_begin, task, tokens_.task_end));
    }

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
                out_.control(format_.later_system_token);
                out_.text(message.content);
                joins_ = false;
                break;
            case Role::user:
                open_user_turn(message);
                out_.text(message.content);
                break;
            case Role::tool:
                open_user_turn(message);
                out_.text(format_.tools->result_begin);
                out_.text(message.content);
                out_.text(format_.tools->result_end);
                break;
            case Role::assistant:
                if (keeps_reasoning(i) && (i == 0 || messages_[i - 1].task.empty())) {
                    out_.text(message.reasoning);
                    out_.control(tokens_.close_think);
                }
                out_.text(message.content);
                if (auto fine = write_calls(out_, *format_.tools, message.calls); !fine)
                    return fine;
                if (!options_.continue_last || i + 1 < messages_.size()) out_.control(tokens_.end);
                joins_ = false;
                break;
            case Role::latest_reminder:
                out_.control(tokens_.reminder);
                out_.text(message.content);
                joins_ = false;
                break;
        }
        return {};
    }

    void open_user_turn(const Message& message) {
        if (joins_)
            out_.text("\n\n");
        else
            out_.control(tokens_.user);
        joins_ = message.task.empty() &&
                 (joins_ || message.role == Role::tool || format_.joins_user_messages);
    }

    const ChatFormat& format_;
    const ChatTokens& tokens_;
    const std::vector<Message>& messages_;
    const PromptOptions& options_;
    PromptWriter out_;
    std::optional<size_t> last_question_;
    bool joins_ = false;  // a user message or a result belongs to the turn before it
};

Result<void> check_continued(const ChatFormat& format, const std::vector<Message>& messages) {
    const size_t last = messages.size() - 1;
    const auto refuse = [&](const char* why) {
        return fail(Code::usage, cat(message_name(messages, last), " cannot be continued: ", why));
    };
    if (messages[last].role != Role::assistant) return refuse("it is not an assistant's");
    if (!messages[last].calls.empty()) return refuse("its tool calls need results");
    if (!messages[last].task.empty()) return refuse("it has a task");
    if (last == 0 || !is_asked(format, messages, last - 1))
        return refuse("no question is before it");
    return {};
}

Result<void> check_tasks(const std::vector<Message>& messages) {
    std::string known;
    for (const std::string_view task : tasks) known += cat(known.empty() ? "" : ", ", task);
    for (size_t i = 0; i < messages.size(); ++i) {
        const std::string& task = messages[i].task;
        const Role role = messages[i].role;
        if (task.empty()) continue;
        if (role != Role::user && role != Role::assistant)
            return fail(Code::usage, cat(message_name(messages, i), ": only messages of a user or ",
                                         "an assistant have a task"));
        if (std::find(tasks.begin(), tasks.end(), task) == tasks.end())
            return fail(Code::usage, cat(message_name(messages, i), ": task '", printable(task),
                                         "' is not one of ", known));
    }
    return {};
}

Result<void> check_messages(const ChatFormat& format, const std::vector<Message>& messages,
                            const PromptOptions& options) {
    if (messages.empty()) return fail(Code::usage, "no messages: give at least one");
    const size_t last = messages.size() - 1;
    if (messages[last].role != Role::assistant && !is_asked(format, messages, last))
        return fail(Code::usage, cat(message_name(messages, last),
                                     " has nothing to answer: a user message must follow"));
    if (options.continue_last) {
        if (auto fine = check_continued(format, messages); !fine) return fine;
    }
    if (auto fine = check_tasks(messages); !fine) return fine;
    for (size_t i = 0; i < options.tools.size(); ++i) {
        if (options.tools[i].is_object() && options.tools[i]["name"].is_string()) continue;
        return fail(Code::usage, cat("tool ", i + 1, ": expected an object with a name"));
    }
    if (declares(options) && options.wording == nullptr)
        return fail(Code::not_found, cat("tools and response formats need the model's own texts, ",
                                         format.wording->pattern(), " in its folder"));
    return {};
}

}  // namespace

bool needs_wording(const ChatFormat& format, const PromptOptions& options) {
    const bool for_effort =
        format.efforts_need_wording && options.effort && options.mode == PromptMode::thinking;
    return for_effort || declares(options);
}

Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         const std::vector<Message>& messages,
                                         const PromptOptions& options) {
    if (auto ok = check_messages(format, messages, options); !ok)
        return tl::unexpected(std::move(ok).error());
    return ChatEncoder(tokenizer, format, messages, options).run();
}

bool answers_without_header(std::string_view task) {
    return !task.empty() && task != action_task;
}

const char* role_name(Role role) {
    for (const auto& [name, known] : role_names) {
        if (known == role) return name;
    }
    return "user";
}

Result<int> parse_effort(std::string_view text) {
    if (text == "low") return effort_low;
    if (text == "high") return effort_high;
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
