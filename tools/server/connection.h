// One accepted connection: a socket that is read and written up to absolute deadlines, so that a
// client that sends or takes a byte at a time is not waited for.
#pragma once

#include <string>
#include <string_view>

#include "io/clock.h"

struct sockaddr;

namespace sluice {

class Connection {
 public:
    // Takes over `fd`, which must not block.
    Connection(int fd, std::string peer) : fd_(fd), peer_(std::move(peer)) {}
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    enum class Got { bytes, end, timeout };
    // Replaces `out` by what is there, at least one byte; end: closed by the client, or broken.
    Got read(std::string& out, Clock::time_point deadline);
    // Whether all of it was taken by then. A failure is the end: nothing more is written.
    bool write(std::string_view bytes, Clock::time_point deadline);
    // Whether the client has closed its side, or the connection is broken. Does not wait.
    bool peer_gone() const;
    // Says that nothing more will be written, and drops what the client still sends, so that it
    // gets to read the reply before it finds the connection closed. At most until the deadline.
    void linger(Clock::time_point deadline);
    // Wakes a thread that waits in read() or write(), which then finds the end. Any thread.
    void shut_down();

    const std::string& peer() const { return peer_; }  // the address, without its port
    std::string local_address() const;                 // as peer()

 private:
    int fd_;
    std::string peer_;
    bool broken_ = false;
};

// The address of a socket as text: "127.0.0.1", "::1".
std::string address_text(const sockaddr* address);

}  // namespace sluice
