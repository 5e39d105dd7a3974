// The chat encoding of DeepSeek-V4.
//
//     BOS [effort text] [system content] [tool block] [response format] { turn }
//     later system     User content, a turn of its own (the encoder's "developer")
//
// No token is in front of the system content. User messages and results of tools that follow one
// another are one user turn. Tool calls are written without a space behind the marker.
//
// Efforts are words, whose texts are constants of the encoder in the model's folder. They tell its
// releases apart:
//
//     REASONING_EFFORT_MAX        the first release: high has no text, max has this one
//     REASONING_EFFORT_PROMPTS    later ones: a dict of words and texts; low has none
//
// Where no effort is asked for, there is no text. A number means the first word that it does not
// exceed: low up to 50, high up to 75, max up to 100.
#pragma once

#include "engine/text/chat_format.h"

namespace sluice {

inline constexpr ToolSyntax deepseek_v4_tools{.marker = "｜DSML｜",
                                              .calls = "tool_calls",
                                              .invoke = "invoke",
                                              .parameter = "parameter",
                                              .result_begin = "<tool_result>",
                                              .result_end = "</tool_result>"};

extern const ChatFormat deepseek_v4_chat;

}  // namespace sluice
