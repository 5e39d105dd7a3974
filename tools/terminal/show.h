// What one-shot and chat show on stderr besides the answer: thoughts, and progress of the prompt.
#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"
#include "io/clock.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Thoughts as they come, dimmed if colour is on, followed by an empty line before the answer.
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

// `text` in lines of less than `columns`, broken between words where that is possible; the rest of
// a line begins where its second column of words does, or two further in.
std::string wrapped(std::string_view text, size_t columns);

// "2 h 5 min", "3 min 20 s", "12 s": rounded up to whole seconds.
std::string duration_text(double seconds);

// "prompt 34 %", after two seconds also the time left at the speed so far. `done`: 0 to 1.
std::string progress_text(double done, double seconds);

// A status line while a prompt is processed, from the session's first report until finish().
class PromptProgress {
 public:
    PromptProgress(Session& session, bool enabled);
    ~PromptProgress() { finish(); }
    void finish();  // may be called again

 private:
    Session& session_;
    StatusLine status_;
    Clock::time_point start_ = Clock::now();
    std::string shown_;
};

}  // namespace sluice
