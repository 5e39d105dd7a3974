// HTTP/1.1 over plain sockets: accepts connections, reads requests within limits, and hands each to
// a handler on the connection's own thread.
//
// Nothing waits for a client longer than allowed: a request must have arrived whole within
// `request_timeout`, counted from its first byte (from the connection's begin for the first one),
// and every write must be taken within `write_timeout`. Beyond `connections_max`, the connection
// that has been idle for longest is closed; if none is idle, the new one is refused with 503.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "io/error.h"
#include "tools/server/connection.h"
#include "tools/server/http_message.h"
#include "tools/server/listener.h"
#include "tools/server/request_reader.h"

namespace sluice {

struct HttpServerOptions {
    HttpLimits limits = {};
    size_t connections_max = 64;
    std::chrono::milliseconds request_timeout{30'000}, write_timeout{30'000};
    std::chrono::milliseconds idle_timeout{30'000};  // between requests of a connection
};

// A request and the way back to its client. Used by the connection's thread only. At most one of
// reply() and begin_stream() is called, once; without either the connection closes.
class Exchange {
 public:
    Exchange(HttpRequest request, Connection& connection, const HttpServerOptions& options)
        : request_(std::move(request)), connection_(connection), options_(options) {}

    const HttpRequest& request() const { return request_; }
    const Connection& connection() const { return connection_; }
    // Headers that every reply to this request gets.
    void add_header(std::string name, std::string value);

    void reply(HttpReply reply);
    void begin_stream(HttpReply head);  // its body is what send() sends
    // False: the client does not take it, or is gone. Nothing more will reach it.
    bool send(std::string_view bytes);
    void end_stream();
    bool client_gone() const { return connection_.peer_gone(); }

    int status() const { return status_; }  // 0: no reply yet
    bool keeps_connection() const { return keep_ && whole_; }
    void close_connection() { keep_ = false; }  // call it before reply()

 private:
    Clock::time_point write_deadline() const { return Clock::now() + options_.write_timeout; }
    HttpRequest request_;
    Connection& connection_;
    const HttpServerOptions& options_;
    std::vector<std::pair<std::string, std::string>> headers_;
    int status_ = 0;
    bool keep_ = request_.keep_alive;
    bool whole_ = false;  // the reply was written to its end
};

class HttpHandler {
 public:
    virtual ~HttpHandler() = default;
    // All three: any number of threads at once.
    virtual void handle(Exchange& exchange) = 0;
    // Before the body of a request is read, so that nothing is kept for who may not ask. False: it
    // was refused; the connection closes then. handle() follows otherwise.
    virtual bool wants_body(Exchange& exchange) = 0;
    // A request that could not be read: too large, too slow, not HTTP. The connection closes then.
    virtual void refuse(Exchange& exchange, int status, const std::string& problem) = 0;
};

class HttpServer {
 public:
    // `handler` outlives the server.
    static std::unique_ptr<HttpServer> start(Listener listener, const HttpServerOptions& options,
                                             HttpHandler& handler);
    // No new connection and no new request. Those that are being handled have a second to end; then
    // their connections are closed.
    ~HttpServer();
    size_t connections() const;  // open now

 private:
    struct Impl;
    explicit HttpServer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
