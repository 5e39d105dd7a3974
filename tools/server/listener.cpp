#include "tools/server/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/text.h"

namespace sluice {

namespace {

constexpr int backlog = 128;

tl::unexpected<Error> cannot_listen(const std::string& host, uint16_t port, int error) {
    std::string why = errno_text(error);
    if (error == EADDRINUSE)
        why = "another program uses this port; choose one with --port (0: any)";
    if (error == EACCES) why = "ports below 1024 need a privilege; choose another with --port";
    return fail(Code::io, cat("cannot listen on ", printable(host), " port ", port, ": ", why));
}

uint16_t bound_port(int fd) {
    sockaddr_storage storage = {};
    socklen_t length = sizeof storage;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
    return ntohs(storage.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                     : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void set(int fd, int level, int option) {
    const int on = 1;
    ::setsockopt(fd, level, option, &on, sizeof on);
}

}  // namespace

// An address that this machine lacks is left out: "localhost" may name one of IPv6 where there is
// none.
Result<void> Listener::bind(const addrinfo& found, const std::string& host, uint16_t port) {
    const int fd = ::socket(found.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && errno == EAFNOSUPPORT) return {};
    if (fd < 0) return cannot_listen(host, port, errno);
    fds_.push_back(fd);
    set(fd, SOL_SOCKET, SO_REUSEADDR);
    if (found.ai_family == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    sockaddr_storage storage = {};
    std::copy_n(reinterpret_cast<const char*>(found.ai_addr), found.ai_addrlen,
                reinterpret_cast<char*>(&storage));
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (found.ai_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
    } else {
        reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
    }
    if (::bind(fd, address, found.ai_addrlen) != 0 || ::listen(fd, backlog) != 0) {
        if (errno == EADDRNOTAVAIL) {
            fds_.pop_back();
            ::close(fd);
            return {};
        }
        return cannot_listen(host, port, errno);
    }
    port_ = bound_port(fd);
    addresses_.push_back(address_text(address));
    return {};
}

Result<Listener> Listener::open(const std::string& host, uint16_t port) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
    addrinfo* found = nullptr;
    if (const int failed = ::getaddrinfo(name.c_str(), nullptr, &hints, &found); failed != 0) {
        return fail(Code::usage, cat("--host ", printable(host), ": ", ::gai_strerror(failed),
                                     "; give an address or a name of this machine"));
    }
    Listener out;
    Result<void> bound;
    for (const addrinfo* one = found; one != nullptr && bound; one = one->ai_next) {
        if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
        const std::string address = address_text(one->ai_addr);
        const auto& have = out.addresses_;
        if (std::find(have.begin(), have.end(), address) != have.end()) continue;
        bound = out.bind(*one, host, port != 0 ? port : out.port_);
    }
    ::freeaddrinfo(found);
    if (!bound) return tl::unexpected(bound.error());
    if (out.fds_.empty()) {
        return fail(Code::io, cat("cannot listen on ", printable(host),
                                  ": this machine has no such address; see --host"));
    }
    return out;
}

Listener::~Listener() {
    close();
}

void Listener::close() {
    for (const int fd : fds_) ::close(fd);
    fds_.clear();
}

std::unique_ptr<Connection> Listener::accept(std::chrono::milliseconds patience) {
    std::vector<pollfd> waits;
    for (const int fd : fds_) waits.push_back({fd, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), static_cast<int>(patience.count())) <= 0) return nullptr;
    for (const pollfd& one : waits) {
        if (one.revents == 0) continue;
        sockaddr_storage storage = {};
        auto* address = reinterpret_cast<sockaddr*>(&storage);
        socklen_t length = sizeof storage;
        const int fd = ::accept4(one.fd, address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            // Out of descriptors: the waiting connection would be reported again at once.
            if (errno == EMFILE || errno == ENFILE) ::usleep(100'000);
            continue;
        }
        set(fd, IPPROTO_TCP, TCP_NODELAY);
        return std::make_unique<Connection>(fd, address_text(address));
    }
    return nullptr;
}

bool Listener::loopback() const {
    return std::all_of(addresses_.begin(), addresses_.end(), [](const std::string& address) {
        return address.starts_with("127.") || address == "::1";
    });
}

std::string http_url(const std::string& host, uint16_t port) {
    const bool bare_v6 = host.find(':') != host.npos && !host.starts_with('[');
    return bare_v6 ? cat("http://[", host, "]:", port) : cat("http://", host, ":", port);
}

}  // namespace sluice
