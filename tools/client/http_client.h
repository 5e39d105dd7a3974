// Asks one HTTP server, with a connection for each request. Not TLS; redirects are not followed,
// and proxies that the environment names are not used. What the server sends is hostile.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "tools/client/server_url.h"
#include "tools/server/connection.h"

namespace sluice {

struct ServerReply {
    int status = 0;
    std::string body;         // empty if it went to a sink
    bool streamed = false;    // it did
    int64_t retry_after = 0;  // seconds; 0: not said
};

struct ServerQuestion {
    const char* method = "GET";
    std::string path;                   // "/v1/models", behind the server's prefix
    std::string body = {};              // JSON; empty: none
    std::chrono::seconds patience{10};  // with a server that sends nothing
};

class HttpClient {
 public:
    static constexpr size_t body_max = 1 << 20;  // of a reply that is no stream

    // Looks the name up and tries to connect. io: it cannot be reached, and why. `cancel` ends
    // every wait but the look-up, as interrupted. `key`: of the API; empty: none.
    static Result<HttpClient> connect(ServerUrl url, std::string key,
                                      const std::atomic<bool>& cancel);
    const ServerUrl& url() const { return url_; }

    // Takes bytes of an event stream as they come; false: no more are wanted.
    using StreamSink = std::function<Result<bool>(std::string_view bytes)>;
    // `sink` gets the body of a reply with status 200 that is an event stream; other bodies are in
    // the reply. Errors: the sink's; interrupted; io: no connection, no HTTP, a limit, silence.
    Result<ServerReply> ask(const ServerQuestion& question, const StreamSink& sink = {}) const;

 private:
    HttpClient(ServerUrl url, std::string key, const std::atomic<bool>& cancel)
        : url_(std::move(url)), key_(std::move(key)), cancel_(&cancel) {}
    struct Address {
        sockaddr_storage storage;
        socklen_t length;
        int family;
    };
    Result<void> look_up();
    Result<std::unique_ptr<Connection>> open() const;
    Result<int> connect_to(const Address& address) const;
    std::string head(const ServerQuestion& question) const;
    Result<void> send(Connection& connection, std::string_view bytes) const;

    ServerUrl url_;
    std::string key_;
    const std::atomic<bool>* cancel_;
    std::vector<Address> addresses_;
};

}  // namespace sluice
