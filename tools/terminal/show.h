// What one-shot and chat show besides the answer: thoughts, and how far the prompt is. On stderr.
#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"
#include "io/clock.h"
#include "tools/terminal/terminal.h"

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

// "prompt 34 %", from two seconds on with the time left at the pace so far. `done`: the share.
std::string progress_text(double done, double seconds);

// A status line while a prompt is swept, from the first call of the session until finish().
class PromptProgress {
 public:
    PromptProgress(Session& session, bool enabled);
    ~PromptProgress() { finish(); }
    void finish();  // also: once more

 private:
    Session& session_;
    StatusLine status_;
    Clock::time_point start_ = Clock::now();
    std::string shown_;
};

}  // namespace sluice
