// Ctrl-C, termination and a vanished reader, turned into flags that the program looks at.
#pragma once

#include <atomic>

#include "tools/terminal/exit_code.h"

namespace sluice {

enum class SecondPress { ignored, leaves };  // of Ctrl-C while the first one is still unanswered

// SIGINT, SIGTERM and SIGHUP raise the cancel flag (and never restart a blocked read). After
// SIGTERM or SIGHUP the process is to end (end_requested()); a second of these, and with `leaves` a
// second Ctrl-C, ends it at once. A SIGHUP that was ignored before (nohup) stays so. SIGQUIT puts
// the terminal back, says so in a line, and ends the process by that signal. SIGPIPE is ignored:
// writes report it. SIGWINCH and SIGCONT raise their own flag. Faults (SIGSEGV, SIGABRT ...) put
// the terminal back first.
void install_signals(SecondPress second);

// What Engine::load, Session::feed and reads of the terminal look at.
const std::atomic<bool>* cancel_flag();
bool interrupt_requested();
void clear_interrupt();     // of Ctrl-C; the others stay
bool end_requested();       // SIGTERM or SIGHUP came
ExitCode interrupt_code();  // 128 and the signal's number

// While one lives, an end in the middle would lose something: an answer, a file. Otherwise (the
// model is loaded, something is measured, all is said) an interruption that the work has not
// answered in half a second ends the process whatever it waits for, a slow drive or a dead one: the
// trace is finished, the terminal put back, a line says so. Reads in flight keep their memory to
// the end.
class MustFinish {
 public:
    MustFinish();
    ~MustFinish();
    MustFinish(const MustFinish&) = delete;
    MustFinish& operator=(const MustFinish&) = delete;
};

// True once after a window change or a return from the background.
bool take_terminal_changed();

}  // namespace sluice
