#include "tools/terminal/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

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
volatile bool pastes_marked = false;

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

void mark_pastes(bool on) {
    if (pastes_marked == on) return;
    pastes_marked = on;
    const char* code = on ? "\x1b[?2004h" : "\x1b[?2004l";
    [[maybe_unused]] ssize_t written = ::write(2, code, 8);
}

void restore_terminal() {
    if (!modes_saved) return;
    ::tcsetattr(0, TCSANOW, &saved_modes);
    mark_pastes(false);
}

std::string visible(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size(); ++at) {
        const Utf8Step step = utf8_at(text, at);
        if (step.state == Utf8State::whole && step.value >= 0x80 && !harmless(step.value)) {
            out += formatted("\\u{:04x}", static_cast<uint32_t>(step.value));
            at += step.bytes - 1;
            continue;
        }
        const char c = text[at];
        auto byte = static_cast<unsigned char>(c);
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
    std::string line = cat("\r", text);
    if (text.size() < width_) line.append(width_ - text.size(), ' ');
    width_ = text.size();
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
}

void StatusLine::erase() {
    if (!enabled_ || width_ == 0) return;
    std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
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
