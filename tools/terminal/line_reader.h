// Lines that a user types, with editing and history if there is a terminal.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

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
        std::string text;   // without the line feed; there may be others inside. Any bytes.
        bool typed = true;  // one line typed by hand: not pasted, not of several lines
    };
    // What may stand in place of `before`, the text before the cursor.
    using Completer = std::function<std::vector<std::string>(const std::string& before)>;

    virtual ~LineReader() = default;
    // `text`: what stands on the line already.
    virtual Line read(const char* prompt, const std::string& text = {}) = 0;
    virtual void remember(const std::string& line) { (void)line; }
    virtual void set_completer(Completer completer) { (void)completer; }
    // Done in small pieces while no key comes; returns whether more is left.
    virtual void set_idle_work(std::function<bool()> work) = 0;
};

// Edits on stderr or, if that is no terminal, on the one that controls the process; with history in
// `history_file` (empty: none). While it exists nothing typed is echoed: what comes between two
// lines stands on the next one. A paste is one piece whatever it holds: several lines or control
// bytes appear in the line as "[pasted N: ...]". Without a terminal, plain lines of stdin.
std::unique_ptr<LineReader> make_line_reader(const Terminal& terminal,
                                             const std::string& history_file);

}  // namespace sluice
