// Standard input byte by byte, as characters, and as the text of a bracketed paste.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

class KeyInput {
 public:
    explicit KeyInput(int fd) : fd_(fd) {}
    // Done in small pieces while no key comes; returns whether more is left. May be empty.
    void set_idle_work(std::function<bool()> work) { idle_work_ = std::move(work); }
    static constexpr int end = -1;          // end of file or a failed terminal
    static constexpr int interrupted = -2;  // nothing yet, or a signal: check the flags, ask again

    int byte();
    int byte_soon();  // one that follows another at once; `interrupted`: none does
    // Whether more has come already.
    bool waiting() const;
    // The next UTF-8 character as a code point. An invalid byte becomes stand_in + byte, a code
    // point for private use; bytes_restored() turns it back.
    int character();
    static constexpr int stand_in = 0x10fe00;
    // The text up to the end mark ESC[201~ (which is consumed), the end of input or SIGTERM. CR and
    // CRLF become LF; all other bytes are text.
    std::string paste();

 private:
    int fd_;
    std::function<bool()> idle_work_;
    std::array<char, 4096> buffer_{};
    size_t next_ = 0, filled_ = 0;
    std::string again_;  // read too far: comes first next time
};

// `text` with the bytes that its stand-ins stand for.
std::string bytes_restored(std::string_view text);

}  // namespace sluice
