// What the three standard streams are connected to, and what may be written to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

struct ScreenSize {
    size_t columns = 80, rows = 24;
};

enum class ColorChoice { automatic, on, off };

struct Terminal {
    bool stdin_open = true;  // false: closed by the parent (<&-)
    bool stdin_tty = false;
    bool stdout_tty = false;
    bool stderr_tty = false;
    bool color = false;  // escape codes on stderr; standard output never gets any
};

// Opens descriptors 0 to 2 that are closed, so that no checkpoint file takes their place: reading
// finds the end, writing fails as before. A 0 that cannot be read counts as closed. First
// thing in main. Returns whether 0 was open.
bool secure_standard_streams();

// Colour: --color overrides NO_COLOR (if not empty), which overrides CLICOLOR_FORCE (if not empty
// or 0), which overrides "stderr is a terminal and TERM is not dumb".
Terminal inspect_terminal(ColorChoice color, bool stdin_open);

// Remembers the terminal's modes; restore_terminal() puts them back.
void remember_terminal();
void restore_terminal();
// From here to give_keys_back(), keys come as they are pressed and are not echoed. `screen` is
// where the line is drawn; `mark_pastes`: the terminal marks pasted text.
void take_keys(int screen, bool mark_pastes);
void give_keys_back();
// For a stopped process that goes on: what take_keys() did, if it did and this process has the
// terminal. It and restore_terminal() are safe in signal handlers.
void take_keys_again();
// A descriptor on which a line can be drawn while it is edited: stderr, or the terminal that
// controls this process; -1: there is none.
int line_screen(const Terminal& terminal);
// Of the terminal, or 80 and 24.
ScreenSize screen_size(int screen);

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
