// Bytes of standard input, one at a time, and the text of a bracketed paste.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

class KeyInput {
 public:
    explicit KeyInput(int fd) : fd_(fd) {}
    static constexpr int end = -1;  // end of file or a failed terminal
    static constexpr int interrupted =
        -2;  // nothing yet, or a signal: look at the flags, ask again

    int byte();
    // A character as a code point, from UTF-8. A byte of none is stand_in + byte, a code point for
    // private use: bytes_restored() puts it back.
    int character();
    static constexpr int stand_in = 0x10fe00;
    // Up to the end mark ESC[201~ (which it eats), the end of input or of the process. CR and CRLF
    // become LF; all other bytes are text.
    std::string paste();

 private:
    int fd_;
    std::array<char, 4096> buffer_{};
    size_t next_ = 0, filled_ = 0;
    std::string again_;  // read, and to be read again before all else
};

// UTF-8 text with the bytes that stand-ins in it stand for.
std::string bytes_restored(std::string_view text);

}  // namespace sluice
