#include "tools/signals.h"

#include <unistd.h>

#include <csignal>

#include "tools/exit_code.h"
#include "tools/terminal.h"

namespace sluice {

namespace {

std::atomic<bool> interrupted{false};
std::atomic<bool> changed{false};
std::atomic<bool> second_leaves{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
    if (interrupted.exchange(true) && second_leaves) {
        restore_terminal();
        _exit(exit_interrupted);
    }
}

void on_change(int) {
    changed = true;
}

// The default action follows, so that the parent sees which signal it was.
void on_end(int signal) {
    restore_terminal();
    static constexpr char line[] = "\nsluice: ended by a signal\n";
    [[maybe_unused]] ssize_t written = ::write(2, line, sizeof line - 1);
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
}

}  // namespace

void install_signals(SecondPress second) {
    second_leaves = second == SecondPress::leaves;
    handle(SIGPIPE, SIG_IGN, 0);
    handle(SIGINT, on_interrupt, 0);
    for (int signal : {SIGWINCH, SIGCONT}) handle(signal, on_change, 0);
    for (int signal : {SIGTERM, SIGHUP, SIGQUIT}) handle(signal, on_end, 0);
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        handle(signal, on_end, static_cast<int>(SA_RESETHAND));
}

const std::atomic<bool>* cancel_flag() {
    return &interrupted;
}

bool interrupt_requested() {
    return interrupted;
}

void clear_interrupt() {
    interrupted = false;
}

bool take_terminal_changed() {
    return changed.exchange(false);
}

}  // namespace sluice
