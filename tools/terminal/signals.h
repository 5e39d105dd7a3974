// Ctrl-C, termination and a closed terminal as flags that the program polls.
#pragma once

#include <atomic>

#include "tools/terminal/exit_code.h"

namespace sluice {

// What Ctrl-C does while the one before it has not been handled yet.
enum class SecondPress { ignored, leaves };
// SIGHUP: the terminal went away. `noted`: a process that needs none goes on, see take_hang_up().
enum class HangUp { ends, noted };

// SIGINT, SIGTERM and SIGHUP raise the cancel flag (a blocked read is not restarted). SIGTERM and
// SIGHUP also ask the process to end (end_requested()); a second one, or with `leaves` a second
// Ctrl-C, ends it at once. One of the three that was ignored before (nohup, trap '') stays ignored.
// SIGQUIT restores the terminal, prints a line, and ends the process by that signal. SIGPIPE is
// ignored because writes report it. SIGWINCH and SIGCONT raise a flag of their own;
// SIGTSTP (Ctrl-Z) restores the terminal and stops, SIGCONT takes it again. Faults (SIGSEGV,
// SIGABRT ...) restore the terminal first.
void install_signals(SecondPress second, HangUp hang_up = HangUp::ends);

// The flag that Engine::load, Session::feed and reads of the terminal poll.
const std::atomic<bool>* cancel_flag();
bool interrupt_requested();
void clear_interrupt();     // forgets Ctrl-C, not SIGTERM or SIGHUP
bool end_requested();       // SIGTERM or SIGHUP came
ExitCode interrupt_code();  // 128 and the signal's number

// Protects work that an abrupt end would lose: an answer, a file. While none exists (a model is
// being loaded, something is measured, everything is written), an interruption that is not handled
// within half a second ends the process, even if it waits for a slow or dead drive: the profile is
// finished, the terminal restored, and a line printed. Reads in flight keep their memory until the
// process is gone.
class MustFinish {
 public:
    MustFinish();
    ~MustFinish();
    MustFinish(const MustFinish&) = delete;
    MustFinish& operator=(const MustFinish&) = delete;
};

// True once after a SIGHUP that is only noted.
bool take_hang_up();
// True once after a window change or a return from the background.
bool take_terminal_changed();

}  // namespace sluice
