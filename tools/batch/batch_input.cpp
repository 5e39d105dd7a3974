#include "tools/batch/batch_input.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/text.h"
#include "tools/batch/batch_lines.h"
#include "tools/options/user_text.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr int look_again_ms = 100;  // at the cancel flag

bool blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<BatchInput> BatchInput::open(const std::string& path) {
    BatchInput out(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    out.owned_ = true;
    out.path_ = printable(path);
    if (out.fd_ >= 0) return out;
    const Code code = errno == ENOENT || errno == ENOTDIR ? Code::not_found : Code::io;
    return tl::unexpected(
        named_file_error({code, cat("the input ", out.path_, ": ", errno_text(errno))}));
}

BatchInput::BatchInput(BatchInput&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      owned_(other.owned_),
      ended_(other.ended_),
      path_(std::move(other.path_)),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      number_(other.number_) {}

BatchInput::~BatchInput() {
    if (owned_ && fd_ >= 0) ::close(fd_);
}

// False at the end of the input.
Result<bool> BatchInput::fill() {
    char chunk[1 << 16];
    while (true) {
        if (interrupt_requested()) return fail(Code::interrupted, "interrupted");
        pollfd state{fd_, POLLIN, 0};
        if (::poll(&state, 1, look_again_ms) <= 0) continue;
        const ssize_t count = ::read(fd_, chunk, sizeof chunk);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count < 0) return fail(Code::io, cat(path_, ": ", errno_text(errno)));
        if (count == 0) return false;
        buffer_.append(chunk, static_cast<size_t>(count));
        return true;
    }
}

// The next line of the buffer, if all of it is there.
std::optional<std::string> BatchInput::take_line() {
    const size_t end = buffer_.find('\n', begin_);
    if (end == std::string::npos) {
        buffer_.erase(0, std::exchange(begin_, 0));
        // The rest of a line that is too long says nothing more.
        if (buffer_.size() > batch_line_max + 1) buffer_.resize(batch_line_max + 1);
        return std::nullopt;
    }
    std::string line = buffer_.substr(begin_, std::min(end - begin_, batch_line_max + 1));
    begin_ = end + 1;
    ++number_;
    return line;
}

Result<std::optional<std::string>> BatchInput::next() {
    while (true) {
        auto line = take_line();
        if (line && number_ == 1) drop_byte_order_mark(*line);
        if (line && !blank(*line)) return line;
        if (line) continue;
        if (ended_) return std::optional<std::string>();
        const auto more = fill();
        if (!more) return tl::unexpected(more.error());
        if (*more) continue;
        ended_ = true;
        if (!buffer_.empty()) buffer_ += '\n';  // a last line without its end
    }
}

}  // namespace sluice
