#include "tools/terminal/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/text.h"

namespace sluice {

Result<void> Output::write(std::string_view bytes) {
    while (!bytes.empty() && !gone_) {
        ssize_t count = ::write(fd_, bytes.data(), bytes.size());
        if (count >= 0) {
            bytes.remove_prefix(static_cast<size_t>(count));
        } else if (errno == EPIPE) {
            gone_ = true;
        } else if (errno == EAGAIN) {  // a non-blocking pipe handed to us: wait for room
            pollfd room{fd_, POLLOUT, 0};
            ::poll(&room, 1, 1000);
        } else if (errno != EINTR) {
            return fail(Code::io, cat("standard output: ", std::strerror(errno)));
        }
    }
    return {};
}

bool Output::reader_gone() {
    pollfd state{fd_, 0, 0};
    if (!gone_ && ::poll(&state, 1, 0) == 1 && (state.revents & POLLERR)) gone_ = true;
    return gone_;
}

bool names_standard_output(std::string_view path) {
    return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

}  // namespace sluice
