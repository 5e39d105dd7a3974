// What the three standard streams are connected to, and what may be written to them.
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

// Opens descriptors 0 to 2 that are closed, so that no checkpoint file takes their place: reading
// finds the end, writing fails as before. First thing in main. Returns whether 0 was open.
bool secure_standard_streams();

// Colour: --color overrides NO_COLOR (if not empty), which overrides CLICOLOR_FORCE (if not empty
// or 0), which overrides "stderr is a terminal and TERM is not dumb".
Terminal inspect_terminal(ColorChoice color, bool stdin_open);

// Remembers the terminal's modes; restore_terminal() puts them back and is safe in a signal
// handler.
void remember_terminal();
void restore_terminal();
// Switches bracketed paste, in which the terminal marks pasted text, on or off; on stderr.
void mark_pastes(bool on);

// Text for a terminal, which it cannot control: control bytes other than line feed and tab become
// ^X; control characters beyond ASCII, and those that change the writing direction, their numbers.
// Files and pipes get the bytes unchanged.
std::string visible(std::string_view text);

// One line on stderr that is rewritten in place and erased at the end; for terminals.
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

// Reads standard input to its end. Says once on stderr that it waits if nothing has come for a
// second. The cancel flag interrupts it; more than 64 MiB is a usage error.
Result<std::string> read_standard_input();

// $XDG_STATE_HOME/sluice, created with mode 0700; empty when there is no home.
std::string state_folder();

}  // namespace sluice
