// What differs between the chat encodings of models. encode_chat() (prompt.h) has the frame that
// they share; a ChatFormat is a model's own part of it, a constant in the model's folder (chat.h).
// Everything that encodes or parses a conversation is given one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/text/prompt_wording.h"
#include "engine/text/tool_syntax.h"
#include "io/error.h"

namespace sluice {

// An effort as the model takes it.
struct Effort {
    std::string shown;  // for people: "75", "max"; empty: what the model does where none is asked
    std::string text;   // what a thinking prompt says of it, in front of the system content
};

// Control tokens of a conversation, as tokenizer.json writes them.
struct ChatTokens {
    std::string_view begin, end;  // of the conversation; of an answer
    std::string_view user, assistant, reminder;
    std::string_view open_think, close_think;
    std::string_view task_begin, task_end;  // around the name of a message's task
};

// Immutable; any thread.
struct ChatFormat {
    const ChatTokens* tokens;     // never null
    const WordingPlace* wording;  // of the texts in the model's folder; never null
    // How tool calls and their results are written; never null.
    const ToolSyntax* tools;
    // The control token in front of the effort, the system content and what is declared, if there
    // is any of these; empty: none.
    std::string_view head_token;
    // That in front of a system message which is not the first message.
    std::string_view later_system_token;
    // A user message joins the user turn before it. Otherwise only one that follows results of
    // tools does, and only those join.
    bool joins_user_messages;
    // A reminder behind a question is a part of its answer: the header stands in front of it.
    bool answer_begins_with_reminder;

    // The effort that is asked for, 1 to 100 with low = 50, high = 75 and max = 100; none: the
    // model's default. `wording` (may be null) is needed only if efforts_need_wording and an effort
    // is asked for. usage: the model, or this release of it, does not know the effort; the error
    // lists those that it knows. not_found: the wording is missing, or has no efforts.
    Result<Effort> (*effort)(std::optional<int> asked, const PromptWording* wording);
    bool efforts_need_wording;
};

inline constexpr int effort_min = 1, effort_low = 50, effort_high = 75, effort_max = 100;

}  // namespace sluice
