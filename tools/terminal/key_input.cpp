#include "tools/terminal/key_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "engine/text/utf8.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr int look_again_ms = 100;
constexpr int idle_work_ms = 2;
constexpr int soon_ms = 50;
constexpr std::string_view paste_end = "\x1b[201~";

std::string with_line_feeds(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\r') {
            out += text[i];
        } else if (i + 1 == text.size() || text[i + 1] != '\n') {
            out += '\n';
        }
    }
    return out;
}

}  // namespace

int KeyInput::byte() {
    if (!again_.empty()) {
        const auto first = static_cast<unsigned char>(again_.front());
        again_.erase(0, 1);
        return first;
    }
    if (next_ == filled_) {
        // A signal may arrive just before read() blocks, so the wait is short.
        pollfd state{fd_, POLLIN, 0};
        const bool working = idle_work_ && idle_work_();
        if (::poll(&state, 1, working ? idle_work_ms : look_again_ms) <= 0) return interrupted;
        ssize_t count = ::read(fd_, buffer_.data(), buffer_.size());
        if (count < 0 && errno == EINTR) return interrupted;
        if (count <= 0) return end;
        next_ = 0;
        filled_ = static_cast<size_t>(count);
    }
    return static_cast<unsigned char>(buffer_[next_++]);
}

int KeyInput::byte_soon() {
    pollfd state{fd_, POLLIN, 0};
    if (again_.empty() && next_ == filled_ && ::poll(&state, 1, soon_ms) <= 0) return interrupted;
    return byte();
}

bool KeyInput::waiting() const {
    pollfd state{fd_, POLLIN, 0};
    return !again_.empty() || next_ != filled_ || ::poll(&state, 1, 0) > 0;
}

int KeyInput::character() {
    const int first = byte();
    if (first < 0x80) return first;
    std::string text(1, static_cast<char>(first));
    Utf8Step step = utf8_at(text, 0);
    while (step.state == Utf8State::unfinished) {
        int next = byte();
        while (next == interrupted && !end_requested()) next = byte();
        if (next < 0) break;
        text += static_cast<char>(next);
        step = utf8_at(text, 0);
    }
    if (step.state == Utf8State::whole) return static_cast<int>(step.value);
    again_.insert(0, text, 1);
    return stand_in + first;
}

std::string KeyInput::paste() {
    std::string text;
    while (true) {
        int next = byte();
        if (next == interrupted && !end_requested()) continue;
        if (next < 0) break;
        text += static_cast<char>(next);
        if (text.size() >= paste_end.size() &&
            text.compare(text.size() - paste_end.size(), paste_end.size(), paste_end) == 0) {
            text.resize(text.size() - paste_end.size());
            break;
        }
    }
    return with_line_feeds(text);
}

std::string bytes_restored(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Utf8Step step = utf8_at(text, 0);
        const auto value = static_cast<int>(step.value) - KeyInput::stand_in;
        if (step.state == Utf8State::whole && value >= 0 && value <= 0xff) {
            out += static_cast<char>(value);
        } else {
            out += text.substr(0, step.bytes);
        }
        text.remove_prefix(step.bytes);
    }
    return out;
}

}  // namespace sluice
