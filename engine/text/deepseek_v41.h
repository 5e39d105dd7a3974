// The chat encoding of DeepSeek-V4.1 (deepseek-v41.md section 6.2).
//
//     BOS [System [effort text] system content [tool block] [response format]] { turn }
//     later system     System content
//
// A user message is a turn of its own, unless it follows the result of a tool. Efforts are the
// numbers from 1 to 100, 75 where none is asked for; their text has no wording of the folder in it.
#pragma once

#include "engine/text/chat_format.h"

namespace sluice {

inline constexpr ToolSyntax deepseek_v41_tools{.marker = "｜DSML｜",
                                               .calls = " calls",
                                               .invoke = " invoke",
                                               .parameter = " parameter",
                                               .result_begin = "<tool_result>",
                                               .result_end = "</tool_result>"};

extern const ChatFormat deepseek_v41_chat;

}  // namespace sluice
