// Bytes from a connection to HTTP requests, within limits. Pure: no sockets, no clock. One thread.
// Every byte is hostile; what the parser (http_parser, as in Node.js) accepts is checked further.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tools/server/http_message.h"

namespace sluice {

struct HttpLimits {
    uint64_t body_max = uint64_t{16} << 20;    // bytes, else 413
    uint64_t header_max = uint64_t{32} << 10;  // bytes of the target and all headers, else 431
    size_t headers_max = 100;                  // else 431
    size_t target_max = 4096;                  // bytes, else 414
};

class RequestReader {
 public:
    enum class State { reading, complete, failed };

    explicit RequestReader(const HttpLimits& limits);
    ~RequestReader();
    // Takes what arrived. Bytes behind the end of a request are kept for the next one. After a
    // failure the connection has to be closed: where the next request begins is not known.
    State feed(std::string_view bytes);
    // Requires State::complete. Then the next request begins: feed({}) looks at the bytes kept.
    HttpRequest take();

    // Whether any byte of the present request has arrived.
    bool begun() const;
    // True once, when the headers have come, but not all of the body.
    bool take_headers_done();
    // Whether the client waits for "100 Continue" before it sends the body. Requires the headers.
    bool expects_continue() const;
    // The request as far as it is known, for the form of the reply and for the log.
    const HttpRequest& so_far() const;
    // After State::failed.
    int status() const;
    const std::string& problem() const;  // one clause, with nothing of the client's in it

    struct Impl;

 private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
