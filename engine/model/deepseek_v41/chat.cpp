#include "engine/model/deepseek_v41/chat.h"

#include "engine/model/deepseek/chat_parts.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr std::string_view system_token = "<｜System｜>";

Result<Effort> effort(std::optional<int> asked, const PromptWording*) {
    const int number = asked.value_or(effort_high);
    if (number < effort_min || number > effort_max)
        return fail(Code::usage,
                    cat("reasoning effort ", number, " is out of range: it must be 1 to 100"));
    return Effort{cat(number), cat("Reasoning Effort: ", number,
                                   " (range 1-100, the higher the value, the more thorough the "
                                   "reasoning)\n\n")};
}

}  // namespace

const ChatFormat deepseek_v41_chat{.tokens = &deepseek::chat_tokens,
                                   .wording = &deepseek::chat_wording,
                                   .tools = &deepseek_v41_tools,
                                   .head_token = system_token,
                                   .later_system_token = system_token,
                                   .joins_user_messages = false,
                                   .answer_begins_with_reminder = false,
                                   .effort = effort,
                                   .efforts_need_wording = false};

}  // namespace sluice
