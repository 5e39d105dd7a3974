// Sockets that wait for connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/error.h"
#include "tools/server/connection.h"

struct addrinfo;

namespace sluice {

class Listener {
 public:
    // `host`: a name or an address; every address that a name stands for is bound. `port` 0: any
    // free one, the same for all of them. usage: no such host; io: the port is in use, or may not
    // be bound.
    static Result<Listener> open(const std::string& host, uint16_t port);
    ~Listener();
    Listener(Listener&&) noexcept = default;
    Listener& operator=(Listener&&) = delete;

    // Waits at most `patience` for a connection; null: none came.
    std::unique_ptr<Connection> accept(std::chrono::milliseconds patience);
    void close();  // connections are refused from now on

    uint16_t port() const { return port_; }
    const std::vector<std::string>& addresses() const { return addresses_; }
    bool loopback() const;  // only this machine can connect

 private:
    Listener() = default;
    Result<void> bind(const addrinfo& found, const std::string& host, uint16_t port);
    std::vector<int> fds_;
    std::vector<std::string> addresses_;
    uint16_t port_ = 0;
};

// "http://127.0.0.1:8080", with brackets around an IPv6 address.
std::string http_url(const std::string& host, uint16_t port);

}  // namespace sluice
