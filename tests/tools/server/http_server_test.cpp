// The HTTP server on real sockets, with a handler of the test's own.
#include "tools/server/http_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "io/text.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

// A client that sends bytes as they are.
class Client {
 public:
    explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    ~Client() {
        if (fd_ >= 0) ::close(fd_);
    }
    bool connected() const { return connected_; }
    void send(std::string_view bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
    // What comes until the connection is closed, or until `enough` is in it.
    std::string receive(std::string_view enough = {}) {
        std::string out;
        char buffer[4096];
        while (enough.empty() || out.find(enough) == out.npos) {
            const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
            if (got <= 0) break;
            out.append(buffer, static_cast<size_t>(got));
        }
        return out;
    }
    void small_window() {
        const int bytes = 4096;
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }

 private:
    int fd_;
    bool connected_ = false;
};

// /echo: the body. /stream: two chunks. /endless: until the client has gone. /hold: until released.
class Handler : public HttpHandler {
 public:
    std::atomic<bool> release{false};
    std::atomic<int> holding{0}, sent{0};
    std::atomic<double> gone_after{-1};

    void handle(Exchange& e) override {
        const std::string& path = e.request().path;
        if (path == "/stream") {
            e.begin_stream({200, {}, "text/plain"});
            e.send("one");
            e.send("two");
            e.end_stream();
        } else if (path == "/endless") {
            e.begin_stream({200, {}, "text/plain"});
            const auto start = Clock::now();
            while (e.send(std::string(10'000, 'x'))) ++sent;
            gone_after = seconds_since(start);
        } else if (path == "/hold") {
            ++holding;
            while (!release && !e.client_gone()) std::this_thread::sleep_for(1ms);
            if (!release) return;
            e.reply({200, "held", "text/plain"});
        } else {
            e.reply({200, e.request().body, "text/plain"});
        }
    }
    bool wants_body(Exchange& e) override {
        if (e.request().path != "/forbidden") return true;
        e.reply({403, "no", "text/plain"});
        return false;
    }
    void refuse(Exchange& e, int status, const std::string& problem) override {
        e.reply({status, problem, "text/plain"});
    }
};

struct Rig {
    explicit Rig(HttpServerOptions options = {}) {
        auto listener = Listener::open("127.0.0.1", 0);
        REQUIRE(listener);
        port = listener->port();
        server = HttpServer::start(std::move(*listener), options, handler);
    }
    Handler handler;
    uint16_t port = 0;
    std::unique_ptr<HttpServer> server;
};

std::string request(const std::string& path, const std::string& body = {},
                    const std::string& headers = {}) {
    return cat("POST ", path, " HTTP/1.1\r\nHost: a\r\n", headers, "Content-Length: ", body.size(),
               "\r\n\r\n", body);
}

}  // namespace

TEST_CASE("the HTTP server answers on one connection until the client closes it") {
    Rig rig;
    Client client(rig.port);
    client.send(request("/echo", "first"));
    CHECK(client.receive("first").starts_with("HTTP/1.1 200 OK\r\n"));
    client.send(request("/echo", "second") + request("/stream"));
    CHECK(client.receive("0\r\n\r\n").find("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n") !=
          std::string::npos);
    client.send(request("/echo", "third", "Connection: close\r\n"));
    CHECK(client.receive().find("Connection: close\r\n\r\nthird") != std::string::npos);
}

TEST_CASE("the HTTP server delimits a stream for an old client by closing") {
    Rig rig;
    Client client(rig.port);
    client.send("GET /stream HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    const std::string reply = client.receive();
    CHECK(reply.ends_with("Connection: close\r\n\r\nonetwo"));
    CHECK(reply.find("chunked") == std::string::npos);
}

TEST_CASE("a request that drips into the HTTP server is ended by an absolute limit") {
    Rig rig({.request_timeout = 300ms});
    Client client(rig.port);
    const auto start = Clock::now();
    std::thread drip([&] {
        for (const char c : request("/echo", std::string(100, 'a'))) {
            client.send({&c, 1});
            std::this_thread::sleep_for(10ms);
        }
    });
    const std::string reply = client.receive();
    const double seconds = seconds_since(start);
    drip.join();
    CHECK(reply.starts_with("HTTP/1.1 408 "));
    CHECK(seconds > 0.25);
    CHECK(seconds < 1.5);
}

TEST_CASE("the HTTP server closes connections that say nothing") {
    Rig rig({.request_timeout = 100ms, .idle_timeout = 100ms});
    Client silent(rig.port), idle(rig.port);
    idle.send(request("/echo", "x"));
    CHECK_FALSE(idle.receive("\r\n\r\nx").empty());
    CHECK(silent.receive().empty());
    CHECK(idle.receive().empty());
}

TEST_CASE("a client that does not read loses its connection to the HTTP server") {
    Rig rig({.write_timeout = 200ms});
    Client client(rig.port);
    client.small_window();
    client.send(request("/endless"));
    while (rig.handler.gone_after < 0) std::this_thread::sleep_for(5ms);
    CHECK(rig.handler.gone_after < 5);
    CHECK(rig.handler.sent > 0);
}

TEST_CASE("the HTTP server refuses one connection too many at once and politely") {
    Rig rig({.connections_max = 2});
    Client first(rig.port), second(rig.port);
    first.send(request("/hold"));
    second.send(request("/hold"));
    while (rig.handler.holding < 2) std::this_thread::sleep_for(1ms);
    Client third(rig.port);
    const std::string reply = third.receive();
    CHECK(reply.starts_with("HTTP/1.1 503 "));
    CHECK(reply.find("Retry-After: 1\r\n") != std::string::npos);
    rig.handler.release = true;
    CHECK(first.receive("held").ends_with("held"));
    CHECK(second.receive("held").ends_with("held"));
}

TEST_CASE("an idle connection makes room for another one in the HTTP server") {
    Rig rig({.connections_max = 1});
    Client idle(rig.port);
    idle.send(request("/echo", "x"));
    CHECK_FALSE(idle.receive("\r\n\r\nx").empty());
    std::this_thread::sleep_for(1100ms);
    Client other(rig.port);
    other.send(request("/echo", "other"));
    CHECK(other.receive("other").starts_with("HTTP/1.1 200 "));
    CHECK(idle.receive().empty());
}

TEST_CASE("a handler of the HTTP server sees that its client has gone") {
    Rig rig;
    {
        Client client(rig.port);
        client.send(request("/hold"));
        while (rig.handler.holding == 0) std::this_thread::sleep_for(1ms);
        CHECK(rig.server->connections() == 1);
    }
    const auto start = Clock::now();
    while (rig.server->connections() > 0) std::this_thread::sleep_for(1ms);
    CHECK(seconds_since(start) < 1);
}

TEST_CASE("the HTTP server replies to what is too large and closes") {
    Rig rig({.limits = {.body_max = 1000}});
    Client client(rig.port);
    client.send(cat("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"));
    for (int i = 0; i < 20; ++i) client.send(std::string(100'000, 'x'));
    CHECK(client.receive().starts_with("HTTP/1.1 413 Payload Too Large\r\n"));
    Client waiting(rig.port);
    waiting.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    CHECK(waiting.receive("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
    waiting.send("ab");
    CHECK(waiting.receive("ab").ends_with("\r\n\r\nab"));
}

TEST_CASE("the HTTP server refuses before it takes the body") {
    Rig rig;
    Client client(rig.port);
    client.send(
        "POST /forbidden HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
        "Content-Length: 1000\r\n\r\n");
    const std::string reply = client.receive();
    CHECK(reply.starts_with("HTTP/1.1 403 Forbidden\r\n"));
    CHECK(reply.ends_with("Connection: close\r\n\r\nno"));
}

TEST_CASE("the HTTP server ends within a second or two whatever its clients do") {
    auto rig = std::make_unique<Rig>();
    Client idle(rig->port), holding(rig->port), endless(rig->port), partial(rig->port);
    holding.send(request("/hold"));
    endless.send(request("/endless"));
    partial.send("GET / HT");
    while (rig->handler.holding == 0 || rig->handler.sent == 0) std::this_thread::sleep_for(1ms);
    const uint16_t port = rig->port;
    const auto start = Clock::now();
    rig.reset();
    CHECK(seconds_since(start) < 2.5);
    CHECK_FALSE(Client(port).connected());
}

TEST_CASE("a port in use is an error that names it and a missing host a usage error") {
    auto first = Listener::open("127.0.0.1", 0);
    REQUIRE(first);
    auto second = Listener::open("127.0.0.1", first->port());
    REQUIRE_FALSE(second);
    CHECK(second.error().code == Code::io);
    CHECK(second.error().message ==
          cat("cannot listen on 127.0.0.1 port ", first->port(),
              ": another program uses this port; choose one with --port (0: any)"));
    CHECK(Listener::open("host.invalid", 0).error().code == Code::usage);
    CHECK(Listener::open("192.0.2.1", 0).error().code == Code::io);
    CHECK(first->loopback());
    CHECK(http_url("::1", 80) == "http://[::1]:80");
}
