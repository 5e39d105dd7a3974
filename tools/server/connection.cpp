#include "tools/server/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sluice {

namespace {

// Whether the socket is ready for `events` before the deadline; also when it is broken.
bool ready(int fd, short events, Clock::time_point deadline) {
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd one = {fd, events, 0};
        const auto wait = std::clamp<int64_t>(left.count(), 0, 60'000);
        const int count = ::poll(&one, 1, static_cast<int>(wait));
        if (count > 0) return true;
        if (count < 0 && errno != EINTR) return true;
        if (Clock::now() >= deadline) return false;
    }
}

bool would_block(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Connection::~Connection() {
    ::close(fd_);
}

Connection::Got Connection::read(std::string& out, Clock::time_point deadline) {
    std::array<char, 16384> buffer;
    while (true) {
        if (!ready(fd_, POLLIN, deadline)) return Got::timeout;
        const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got > 0) {
            out.assign(buffer.data(), static_cast<size_t>(got));
            return Got::bytes;
        }
        if (got == 0 || !would_block(errno)) return Got::end;
    }
}

bool Connection::write(std::string_view bytes, Clock::time_point deadline) {
    while (!bytes.empty() && !broken_) {
        const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.remove_prefix(static_cast<size_t>(sent));
        } else if (sent < 0 && !would_block(errno)) {
            broken_ = true;
        } else if (!ready(fd_, POLLOUT, deadline)) {
            broken_ = true;
        }
    }
    return !broken_;
}

bool Connection::peer_gone() const {
    pollfd one = {fd_, POLLRDHUP, 0};
    return broken_ || ::poll(&one, 1, 0) > 0;
}

void Connection::linger(Clock::time_point deadline) {
    ::shutdown(fd_, SHUT_WR);
    std::string dropped;
    while (Clock::now() < deadline && read(dropped, deadline) == Got::bytes) {
    }
}

void Connection::shut_down() {
    ::shutdown(fd_, SHUT_RDWR);
}

std::string Connection::local_address() const {
    sockaddr_storage storage = {};
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    socklen_t length = sizeof storage;
    return ::getsockname(fd_, address, &length) == 0 ? address_text(address) : std::string();
}

std::string address_text(const sockaddr* address) {
    std::array<char, INET6_ADDRSTRLEN> text = {};
    if (address->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
        ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    } else if (address->sa_family == AF_INET6) {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
        const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        const void* bytes = mapped ? static_cast<const void*>(&v6->sin6_addr.s6_addr[12])
                                   : static_cast<const void*>(&v6->sin6_addr);
        ::inet_ntop(mapped ? AF_INET : AF_INET6, bytes, text.data(), text.size());
    }
    return text.data();
}

}  // namespace sluice
