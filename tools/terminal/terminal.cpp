#include "tools/terminal/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "engine/text/utf8.h"
#include "io/format.h"
#include "io/text.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr size_t input_max = size_t{64} << 20;

termios saved_modes;
volatile bool modes_saved = false;
volatile bool keys_taken = false, pastes_marked = false;
volatile int key_screen = 2;

bool is_set(const char* variable) {
    const char* value = std::getenv(variable);
    return value && value[0];
}

bool decide_color(ColorChoice choice, bool stderr_tty) {
    if (choice != ColorChoice::automatic) return choice == ColorChoice::on;
    if (is_set("NO_COLOR")) return false;
    const char* force = std::getenv("CLICOLOR_FORCE");
    if (force && force[0] && std::strcmp(force, "0") != 0) return true;
    const char* term = std::getenv("TERM");
    return stderr_tty && term && std::strcmp(term, "dumb") != 0;
}

}  // namespace

bool secure_standard_streams() {
    bool stdin_open = ::fcntl(0, F_GETFD) >= 0;
    for (int fd = 0; fd < 3; ++fd) {
        // Read-only for 1 and 2 too: writing fails, as it would on a closed descriptor.
        if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) < 0) std::_Exit(70);
    }
    // nohup at a terminal opens 0 for writing alone.
    if (stdin_open && (::fcntl(0, F_GETFL) & O_ACCMODE) == O_WRONLY) {
        const int null = ::open("/dev/null", O_RDONLY);
        if (null < 0 || ::dup2(null, 0) < 0) std::_Exit(70);
        ::close(null);
        stdin_open = false;
    }
    return stdin_open;
}

Terminal inspect_terminal(ColorChoice color, bool stdin_open) {
    Terminal terminal;
    terminal.stdin_open = stdin_open;
    terminal.stdin_tty = ::isatty(0);
    terminal.stdout_tty = ::isatty(1);
    terminal.stderr_tty = ::isatty(2);
    terminal.color = decide_color(color, terminal.stderr_tty);
    return terminal;
}

void remember_terminal() {
    if (::tcgetattr(0, &saved_modes) == 0) modes_saved = true;
}

namespace {

void send_paste_mode(bool on) {
    if (!pastes_marked) return;
    const char* code = on ? "\x1b[?2004h" : "\x1b[?2004l";
    [[maybe_unused]] ssize_t written = ::write(key_screen, code, 8);
}

bool in_background() {
    const pid_t foreground = ::tcgetpgrp(0);
    return foreground > 0 && foreground != ::getpgrp();
}

// CR stays CR, so that a pasted CRLF is one line end.
void set_key_modes() {
    termios modes = saved_modes;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
    modes.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    ::tcsetattr(0, TCSADRAIN, &modes);
}

}  // namespace

void restore_terminal() {
    // In the background it is the shell's, and asking for it would stop this process.
    if (!modes_saved || in_background()) return;
    ::tcsetattr(0, TCSANOW, &saved_modes);
    if (keys_taken) send_paste_mode(false);
}

void take_keys(int screen, bool mark_pastes) {
    if (!modes_saved) return;
    key_screen = screen;
    pastes_marked = mark_pastes;
    keys_taken = true;
    take_keys_again();
}

void give_keys_back() {
    if (!keys_taken) return;
    restore_terminal();
    keys_taken = false;
}

void take_keys_again() {
    if (!keys_taken || in_background()) return;
    set_key_modes();
    send_paste_mode(true);
}

int line_screen(const Terminal& terminal) {
    if (!terminal.stdin_tty) return -1;
    if (terminal.stderr_tty) return 2;
    static const int controlling = ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    return controlling;
}

ScreenSize screen_size(int screen) {
    winsize size{};
    if (::ioctl(screen, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
    return {size.ws_col, size.ws_row == 0 ? size_t{24} : size.ws_row};
}

std::string visible(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size(); ++at) {
        const Utf8Step step = utf8_at(text, at);
        if (step.state == Utf8State::whole && step.value >= 0x80) {
            out += harmless(step.value) ? std::string(text.substr(at, step.bytes))
                                        : formatted("\\u{:04x}", static_cast<uint32_t>(step.value));
            at += step.bytes - 1;
            continue;
        }
        const char c = text[at];
        auto byte = static_cast<unsigned char>(c);
        if (step.state != Utf8State::whole && byte < 0xa0 && byte >= 0x80) {
            out += formatted("\\x{:02x}", byte);
            continue;
        }
        bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
        if (control) {
            out += '^';
            out += static_cast<char>(byte ^ 0x40);
        } else {
            out += c;
        }
    }
    return out;
}

void StatusLine::show(std::string_view text) {
    if (!enabled_) return;
    // A line that is longer than the terminal is wide would scroll it.
    const size_t columns = screen_size(2).columns;
    text = text.substr(0, columns > 0 ? columns - 1 : 0);
    std::string line = cat("\r", text);
    const size_t before = std::min(width_, columns > 0 ? columns - 1 : 0);
    if (text.size() < before) line.append(before - text.size(), ' ');
    width_ = text.size();
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
}

void StatusLine::erase() {
    if (!enabled_ || width_ == 0) return;
    const size_t most = std::max<size_t>(screen_size(2).columns, 1) - 1;
    std::fprintf(stderr, "\r%*s\r", static_cast<int>(std::min(width_, most)), "");
    std::fflush(stderr);
    width_ = 0;
}

Result<std::string> read_standard_input() {
    std::string text;
    bool said = false;
    std::string chunk(size_t{1} << 16, '\0');
    while (true) {
        if (interrupt_requested()) return fail(Code::interrupted, "interrupted");
        pollfd state{0, POLLIN, 0};
        int ready = ::poll(&state, 1, 1000);
        if (ready == 0 && !said) {
            std::fprintf(stderr,
                         "sluice: waiting for standard input to end (Ctrl-D ends it; "
                         "</dev/null is empty)\n");
            said = true;
        }
        if (ready <= 0) continue;
        ssize_t count = ::read(0, chunk.data(), chunk.size());
        if (count == 0) return text;
        if (count < 0) {
            if (errno == EINTR || errno == EAGAIN) continue;
            return fail(Code::io, cat("standard input: ", std::strerror(errno)));
        }
        text.append(chunk, 0, static_cast<size_t>(count));
        if (text.size() > input_max) {
            return fail(Code::usage, "standard input: a prompt can have at most 64 MiB");
        }
    }
}

std::string state_folder() {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    std::filesystem::path folder;
    if (state && state[0] == '/')
        folder = state;
    else if (home && home[0] == '/')
        folder = std::filesystem::path(home) / ".local/state";
    else
        return {};
    folder /= "sluice";
    std::error_code error;
    std::filesystem::create_directories(folder.parent_path(), error);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return {};
    return folder;
}

}  // namespace sluice
