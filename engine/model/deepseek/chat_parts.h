// What the chat encodings of all DeepSeek models share (deepseek-v41.md section 6.1).
#pragma once

#include "engine/text/chat_format.h"

namespace sluice::deepseek {

inline constexpr ChatTokens chat_tokens{.begin = "<｜begin▁of▁sentence｜>",
                                        .end = "<｜end▁of▁sentence｜>",
                                        .user = "<｜User｜>",
                                        .assistant = "<｜Assistant｜>",
                                        .reminder = "<｜latest_reminder｜>",
                                        .open_think = "<think>",
                                        .close_think = "</think>",
                                        .task_begin = "<｜",
                                        .task_end = "｜>"};

inline constexpr WordingPlace chat_wording{.folder = "encoding",
                                           .first_letters = "encoding",
                                           .ending = ".py",
                                           .tools = "TOOLS_TEMPLATE",
                                           .tools_begin = "## Tools",
                                           .format = "response_format_template"};

}  // namespace sluice::deepseek
