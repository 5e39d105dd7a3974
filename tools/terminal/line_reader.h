// Lines a person types, with editing and history where the streams are terminals.
#pragma once

#include <memory>
#include <string>

#include "tools/terminal/terminal.h"

namespace sluice {

class LineReader {
 public:
    enum class Event {
        line,
        interrupt,        // Ctrl-C on an empty line
        interrupt_typed,  // Ctrl-C that threw away what was typed
        end,              // Ctrl-D, or the terminal is gone
    };
    struct Line {
        Event event;
        std::string text;  // without the line feed; a paste may put more inside. Any bytes.
    };
    virtual ~LineReader() = default;
    virtual Line read(const char* prompt) = 0;
    virtual void remember(const std::string& line) { (void)line; }
};

// With libedit when stdin and stderr are terminals, history in `history_file` (may be empty). A
// paste is one piece whatever it holds: several lines, or control bytes, stand in the line as
// "[pasted N: ...]" and are put back when the line is entered.
std::unique_ptr<LineReader> make_line_reader(const Terminal& terminal,
                                             const std::string& history_file);

}  // namespace sluice
