#include "tools/key_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "tools/signals.h"

namespace sluice {

namespace {

constexpr int look_again_ms = 100;
constexpr std::string_view paste_end = "\x1b[201~";

std::string with_line_feeds(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
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
    if (next_ == filled_) {
        // A signal may come just before read() blocks: nobody waits longer than this for it.
        pollfd state{fd_, POLLIN, 0};
        if (::poll(&state, 1, look_again_ms) <= 0) return interrupted;
        ssize_t count = ::read(fd_, buffer_.data(), buffer_.size());
        if (count < 0 && errno == EINTR) return interrupted;
        if (count <= 0) return end;
        next_ = 0;
        filled_ = static_cast<size_t>(count);
    }
    return static_cast<unsigned char>(buffer_[next_++]);
}

int KeyInput::character() {
    int first = byte();
    if (first < 0x80) return first;
    int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    if (more == 0 || first > 0xf4) return 0xfffd;
    int code = first & (0x3f >> more);
    for (int i = 0; i < more; i++) {
        int next = byte();
        while (next == interrupted && !end_requested()) next = byte();
        if (next < 0x80 || next > 0xbf) return 0xfffd;
        code = (code << 6) | (next & 0x3f);
    }
    return code;
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

}  // namespace sluice
