// What the replies of several APIs are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/answer/json_writer.h"
#include "tools/api/dialect.h"

namespace sluice {

// Server-sent events. `json` has no line break.
std::string sse_data(std::string_view json);
std::string sse_event(std::string_view name, std::string_view json);
// A comment, which clients skip: ": queued, place 3", ": reading the prompt 37 %".
std::string sse_comment(int64_t queue_place, double prompt_done);

std::string reply_id(std::string_view prefix, const ReplyFacts& facts);
// Which build answered: "sluice-0.1.0-1a2b3c4".
std::string fingerprint();

// The call's own id, or one made of the reply's and `index`, its number in the reply.
std::string call_id(const ToolCall& call, std::string_view prefix, const ReplyFacts& facts,
                    size_t index);
// The calls that go into the reply, of which `sent` have gone: all, or the first alone.
std::span<const ToolCall> calls_to_send(const ApiRequest& request,
                                        const std::vector<ToolCall>& calls, size_t sent);

// What a client cannot see in the reply's other members: that it was cut short or holds a tool call
// that could not be read. Empty: nothing to say.
std::string_view warning_of(const Answer& answer);
// The same for people and, as "ended_by" and "reasoning_unclosed", for programs.
void write_warning(JsonWriter& json, const Answer& answer);

// "stop", "length" or "tool_calls". An answer that was interrupted or repeated itself is not
// complete: "length".
std::string_view finish_reason(const Answer& answer);

// OpenAI's usage of chat and text completions.
void write_usage(JsonWriter& json, const Answer& answer);
// The times of both phases, with the names of llama.cpp's server.
void write_timings(JsonWriter& json, const Answer& answer);

}  // namespace sluice
