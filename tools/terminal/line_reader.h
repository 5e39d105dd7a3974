// Lines that a user types, with editing and history if the streams are terminals.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tools/terminal/terminal.h"

namespace sluice {

class LineReader {
 public:
    enum class Event {
        line,
        interrupt,        // Ctrl-C on an empty line
        interrupt_typed,  // Ctrl-C that discarded what was typed
        end,              // Ctrl-D, or the terminal is gone
    };
    struct Line {
        Event event;
        std::string text;  // without the line feed; a paste may put more inside. Any bytes.
    };
    virtual ~LineReader() = default;
    virtual Line read(const char* prompt) = 0;
    virtual void remember(const std::string& line) { (void)line; }
    // Done in small pieces while no key comes; returns whether more is left.
    virtual void set_idle_work(std::function<bool()> work) = 0;
};

// Uses libedit if stdin and stderr are terminals, with history in `history_file` (empty: none). A
// paste is one piece whatever it holds: several lines or control bytes appear in the line as
// "[pasted N: ...]" and are put back when the line is entered.
std::unique_ptr<LineReader> make_line_reader(const Terminal& terminal,
                                             const std::string& history_file);

}  // namespace sluice
