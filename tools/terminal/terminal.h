// What the three standard streams are, and what may be written on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

enum class ColorChoice { automatic, on, off };

struct Terminal {
    bool stdin_open = true;  // false: closed by the parent (<&-)
    bool stdin_tty = false;
    bool stdout_tty = false;
    bool stderr_tty = false;
    bool color = false;  // escape codes on stderr; standard output never gets any
};

// Descriptors 0 to 2 that are closed are opened on /dev/null (0) or a write-refusing file (1, 2),
// so that no checkpoint file takes their place. First thing in main. Returns whether 0 was open.
bool secure_standard_streams();

// --color beats NO_COLOR (not empty), which beats CLICOLOR_FORCE (not empty, not 0), which beats
// "stderr is a terminal and TERM is not dumb".
Terminal inspect_terminal(ColorChoice color, bool stdin_open);

// Remembers the terminal's modes now and puts them back from restore_terminal(), which is safe in a
// signal handler.
void remember_terminal();
void restore_terminal();
// Asks the terminal to mark pasted text (bracketed paste), or not to; on stderr.
void mark_pastes(bool on);

// Model text for a terminal: control bytes other than line feed and tab as ^X, so that an answer
// cannot steer it. Plain bytes go to files and pipes unchanged.
std::string visible(std::string_view text);

// One line on stderr that is rewritten in place and erased; silent unless stderr is a terminal.
class StatusLine {
 public:
    explicit StatusLine(bool enabled) : enabled_(enabled) {}
    ~StatusLine() { erase(); }
    StatusLine(const StatusLine&) = delete;
    StatusLine& operator=(const StatusLine&) = delete;
    void show(std::string_view text);
    void erase();

 private:
    bool enabled_;
    size_t width_ = 0;
};

// Everything on standard input up to its end. Says on stderr, once, that it waits when nothing has
// come for a second. Interrupted by the cancel flag; above 64 MiB a usage error.
Result<std::string> read_standard_input();

// $XDG_STATE_HOME/sluice, created with mode 0700; empty when there is no home.
std::string state_folder();

}  // namespace sluice
