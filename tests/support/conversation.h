// Messages in few words, for tests of prompts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/text/deepseek_v41.h"
#include "engine/text/prompt.h"

namespace sluice::test {

inline Message system_says(std::string text) {
    return {Role::system, std::move(text)};
}
inline Message user(std::string text) {
    return {Role::user, std::move(text)};
}
inline Message assistant(std::string text, std::string reasoning = "",
                         std::vector<ToolCall> calls = {}) {
    return {Role::assistant, std::move(text), std::move(reasoning), std::move(calls)};
}
inline Message tool(std::string text, std::string call_id = "") {
    return {Role::tool, std::move(text), "", {}, std::move(call_id)};
}
inline Message reminder(std::string text) {
    return {Role::latest_reminder, std::move(text)};
}

inline PromptOptions thinking(int effort = 75, bool drop = true) {
    return {PromptMode::thinking, effort, drop};
}

inline constexpr const char* effort75 =
    "Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the reasoning)\n\n";

}  // namespace sluice::test
