// Ctrl-C, termination and a vanished reader, turned into flags that the program looks at.
#pragma once

#include <atomic>

namespace sluice {

enum class SecondPress { ignored, leaves };  // of Ctrl-C while the first one is still unanswered

// SIGINT raises the cancel flag (never restarts a blocked read); with `leaves` a second one ends
// the process with 130. SIGTERM, SIGHUP and SIGQUIT put the terminal back, say so in a line, and
// end the process by that signal. SIGPIPE is ignored: writes report it. SIGWINCH and SIGCONT raise
// their own flag. Faults (SIGSEGV, SIGABRT ...) put the terminal back first.
void install_signals(SecondPress second);

// What Engine::load, Session::feed and reads of the terminal look at.
const std::atomic<bool>* cancel_flag();
bool interrupt_requested();
void clear_interrupt();

// True once after a window change or a return from the background.
bool take_terminal_changed();

}  // namespace sluice
