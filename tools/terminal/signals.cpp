#include "tools/terminal/signals.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "io/profile.h"
#include "tools/terminal/terminal.h"

namespace sluice {

namespace {

constexpr auto patience = std::chrono::milliseconds(500);
constexpr auto poll_interval = std::chrono::milliseconds(10);

std::atomic<bool> interrupted{false};
std::atomic<int> end_signal{0};  // SIGTERM or SIGHUP, once it came
std::atomic<bool> changed{false};
std::atomic<bool> hung_up{false};
std::atomic<bool> second_leaves{false};
std::atomic<int> must_finish{0};
sem_t pressed;  // wakes the watcher
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_interrupt(int signal) {
    const int kept = errno;
    const bool ends = signal != SIGINT;
    const bool ends_again = ends && end_signal.exchange(signal) != 0;
    const bool again = interrupted.exchange(true);
    if (ends_again || (!ends && again && second_leaves)) {
        restore_terminal();
        _exit(interrupt_code());
    }
    sem_post(&pressed);
    errno = kept;
}

void on_change(int) {
    changed = true;
}

// The shell gets the terminal as it was found.
void on_stop(int) {
    const int kept = errno;
    restore_terminal();
    ::raise(SIGSTOP);
    errno = kept;
}

void on_continue(int) {
    const int kept = errno;
    take_keys_again();
    changed = true;
    errno = kept;
}

void on_hang_up(int) {
    hung_up = true;
}

// The default action follows, so that the parent process sees which signal it was.
void on_end(int signal) {
    restore_terminal();
    static constexpr char line[] = "\nsluice: ended by a signal\n";
    [[maybe_unused]] ssize_t written = ::write(2, line, sizeof line - 1);
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

// On the watcher's thread. Nothing is destroyed: the engine's thread and the kernel may be using
// it.
[[noreturn]] void end_now() {
    if (auto written = spans::finish(); !written) report_error(written.error());
    restore_terminal();
    if (::isatty(2)) [[maybe_unused]]
        ssize_t ended = ::write(2, "\n", 1);  // a status line
    report_error({Code::interrupted, {}});
    _exit(interrupt_code());
}

void watch() {
    while (true) {
        while (sem_wait(&pressed) != 0) {
        }
        std::chrono::milliseconds waited{0};
        while (interrupted && waited < patience) {
            std::this_thread::sleep_for(poll_interval);
            waited = must_finish == 0 ? waited + poll_interval : std::chrono::milliseconds(0);
        }
        if (interrupted) end_now();
    }
}

// If no thread can be created, an interruption waits until the work polls the flag.
void start_watcher() {
    static const bool started = sem_init(&pressed, 0, 0) == 0;
    if (!started) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread(watch).detach();
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
}

bool ignored(int signal) {
    struct sigaction action = {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void install_signals(SecondPress second, HangUp hang_up) {
    second_leaves = second == SecondPress::leaves;
    start_watcher();
    handle(SIGPIPE, SIG_IGN, 0);
    handle(SIGXFSZ, SIG_IGN, 0);  // a file at its size limit is an error of the write
    const bool ends = hang_up == HangUp::ends;
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
        if (ignored(signal)) continue;
        handle(signal, signal != SIGHUP || ends ? on_interrupt : on_hang_up, 0);
    }
    handle(SIGWINCH, on_change, SA_RESTART);
    handle(SIGCONT, on_continue, SA_RESTART);
    if (!ignored(SIGTSTP)) handle(SIGTSTP, on_stop, SA_RESTART);
    handle(SIGQUIT, on_end, 0);
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
    if (end_requested()) interrupted = true;
}

bool end_requested() {
    return end_signal != 0;
}

ExitCode interrupt_code() {
    const int signal = end_signal;
    return signal == SIGTERM ? exit_terminated : signal == SIGHUP ? exit_hung_up : exit_interrupted;
}

MustFinish::MustFinish() {
    ++must_finish;
}

MustFinish::~MustFinish() {
    --must_finish;
}

bool take_hang_up() {
    return hung_up.exchange(false);
}

bool take_terminal_changed() {
    return changed.exchange(false);
}

}  // namespace sluice
