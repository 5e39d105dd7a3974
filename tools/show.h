// What one-shot and chat show besides the answer: thoughts, and how far the prompt is. On stderr.
#pragma once

#include <string_view>

#include "engine/engine.h"
#include "tools/terminal.h"

namespace sluice {

// Reasoning as it comes, dimmed where colour is on, closed by an empty line before the answer.
class ThoughtStream {
 public:
    ThoughtStream(const Terminal& terminal, bool shown)
        : color_(terminal.color), tty_(terminal.stderr_tty), shown_(shown) {}
    void show(std::string_view text);
    void end();

 private:
    bool color_, tty_, shown_;
    bool open_ = false;
};

// A status line while a prompt is swept, from the first call of the session until finish().
class PromptProgress {
 public:
    PromptProgress(Session& session, bool enabled);
    ~PromptProgress() { finish(); }
    void finish();  // also: once more

 private:
    Session& session_;
    StatusLine status_;
};

}  // namespace sluice
