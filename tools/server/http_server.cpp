#include "tools/server/http_server.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "io/log.h"

namespace sluice {

namespace {

constexpr std::chrono::milliseconds accept_patience{100};
constexpr std::chrono::milliseconds linger_time{1000}, last_linger_time{200};
// A connection may be closed to make room for another once it has been idle for this long.
constexpr std::chrono::milliseconds spared{1000};
constexpr std::chrono::milliseconds patience{1000};  // at the end, with requests being handled
constexpr std::string_view continue_line = "HTTP/1.1 100 Continue\r\n\r\n";

// A connection and the thread that serves it.
struct Served {
    std::unique_ptr<Connection> connection;
    std::thread thread;
    std::atomic<bool> done{false};
    // When the wait for its next request began; empty: one is being read or handled.
    std::optional<Clock::time_point> idle_since;
    bool refused = false;  // one too many: gets 503 before it asks
};

}  // namespace

struct HttpServer::Impl {
    Impl(Listener l, const HttpServerOptions& o, HttpHandler& h)
        : listener(std::move(l)), options(o), handler(h) {}

    void accept_loop();
    void admit(std::unique_ptr<Connection> connection);
    bool make_room();
    void reap();
    void serve(Served& served);
    void shut_down(bool only_idle);
    bool serve_one(Served& served, RequestReader& reader, Clock::time_point& deadline);
    // late: begun, but not complete in time; over: no reply is due any more.
    enum class Read { whole, failed, late, over };
    Read read_request(Served& served, RequestReader& reader, Clock::time_point deadline);
    bool ask_for_body(Served& served, const RequestReader& reader);
    void set_idle(Served& served, std::optional<Clock::time_point> since) {
        const std::lock_guard lock(mutex);
        served.idle_since = since;
    }

    Listener listener;
    const HttpServerOptions options;
    HttpHandler& handler;
    std::atomic<bool> stopping{false};
    mutable std::mutex mutex;  // guards all below, and Served::idle_since
    std::list<Served> served;
    std::thread acceptor;
};

// Joins the threads that have ended. Requires no lock; acceptor's thread, or none is left.
void HttpServer::Impl::reap() {
    std::list<Served> ended;
    {
        const std::lock_guard lock(mutex);
        for (auto one = served.begin(); one != served.end();) {
            const auto next = std::next(one);
            if (one->done) ended.splice(ended.end(), served, one);
            one = next;
        }
    }
    for (Served& one : ended) one.thread.join();
}

// Requires the lock. Whether one more connection may be served, once an idle one was closed if
// necessary.
bool HttpServer::Impl::make_room() {
    const auto in_use = static_cast<size_t>(std::count_if(
        served.begin(), served.end(), [](const Served& one) { return !one.refused && !one.done; }));
    if (in_use < options.connections_max) return true;
    Served* oldest = nullptr;
    for (Served& one : served) {
        if (one.done || one.refused || !one.idle_since) continue;
        if (Clock::now() - *one.idle_since < spared) continue;
        if (!oldest || *one.idle_since < *oldest->idle_since) oldest = &one;
    }
    if (!oldest) return false;
    oldest->idle_since.reset();
    oldest->connection->shut_down();
    return true;
}

void HttpServer::Impl::admit(std::unique_ptr<Connection> connection) {
    const std::lock_guard lock(mutex);
    const bool room = make_room();
    // Each refused connection has a thread for a moment, too: not any number of them.
    if (!room && served.size() >= 2 * options.connections_max + 16) return;
    Served& one = served.emplace_back();
    one.connection = std::move(connection);
    one.refused = !room;
    try {
        one.thread = std::thread([this, &one] { serve(one); });
    } catch (const std::system_error&) {
        log::warn_once("connection thread", "no thread for another connection: it was closed");
        served.pop_back();
    }
}

void HttpServer::Impl::accept_loop() {
    while (!stopping) {
        if (auto connection = listener.accept(accept_patience)) admit(std::move(connection));
        reap();
    }
    listener.close();
}

// Before the body. False: there will be none, since the request was refused or the client left.
bool HttpServer::Impl::ask_for_body(Served& one, const RequestReader& reader) {
    Exchange exchange(reader.so_far(), *one.connection, options);
    exchange.close_connection();
    if (!handler.wants_body(exchange)) return false;
    if (!reader.expects_continue()) return true;
    return one.connection->write(continue_line, Clock::now() + options.write_timeout);
}

// Reads until the request is complete or has failed.
HttpServer::Impl::Read HttpServer::Impl::read_request(Served& one, RequestReader& reader,
                                                      Clock::time_point deadline) {
    std::string bytes;
    auto state = reader.feed({});
    while (state == RequestReader::State::reading) {
        if (reader.take_headers_done() && !ask_for_body(one, reader)) return Read::over;
        const bool begun = reader.begun();
        const auto got = one.connection->read(bytes, deadline);
        if (got == Connection::Got::timeout && begun) return Read::late;
        if (got != Connection::Got::bytes) return Read::over;
        if (!begun) {
            set_idle(one, {});
            deadline = Clock::now() + options.request_timeout;
        }
        state = reader.feed(bytes);
    }
    return state == RequestReader::State::complete ? Read::whole : Read::failed;
}

void HttpServer::Impl::shut_down(bool only_idle) {
    const std::lock_guard lock(mutex);
    for (Served& one : served) {
        if (!one.done && (one.idle_since || !only_idle)) one.connection->shut_down();
    }
}

// One request and its reply. False: the connection is over.
bool HttpServer::Impl::serve_one(Served& one, RequestReader& reader, Clock::time_point& deadline) {
    const Read read = read_request(one, reader, deadline);
    set_idle(one, {});
    if (read == Read::over) return false;
    const bool whole = read == Read::whole;
    Exchange exchange(whole ? reader.take() : reader.so_far(), *one.connection, options);
    if (!whole || stopping) exchange.close_connection();
    if (read == Read::late) {
        handler.refuse(exchange, 408, "the request took too long to arrive (--request-timeout)");
    } else if (!whole) {
        handler.refuse(exchange, reader.status(), reader.problem());
    } else {
        handler.handle(exchange);
    }
    if (stopping || !exchange.keeps_connection()) return false;
    deadline = Clock::now() + options.idle_timeout;
    set_idle(one, Clock::now());
    return !stopping;
}

void HttpServer::Impl::serve(Served& one) {
    if (one.refused) {
        Exchange exchange({}, *one.connection, options);
        exchange.add_header("Retry-After", "1");
        handler.refuse(exchange, 503, "too many connections (--max-connections)");
    } else {
        RequestReader reader(options.limits);
        auto deadline = Clock::now() + options.request_timeout;
        set_idle(one, Clock::now());
        while (serve_one(one, reader, deadline)) {
        }
    }
    one.connection->linger(Clock::now() + (stopping ? last_linger_time : linger_time));
    one.connection->shut_down();
    one.done = true;
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<HttpServer> HttpServer::start(Listener listener, const HttpServerOptions& options,
                                              HttpHandler& handler) {
    auto impl = std::make_unique<Impl>(std::move(listener), options, handler);
    Impl* running = impl.get();
    impl->acceptor = std::thread([running] { running->accept_loop(); });
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() {
    impl_->stopping = true;
    impl_->shut_down(true);
    impl_->acceptor.join();
    const auto deadline = Clock::now() + patience;
    while (connections() > 0 && Clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    impl_->shut_down(false);
    for (Served& one : impl_->served) one.thread.join();
}

size_t HttpServer::connections() const {
    const std::lock_guard lock(impl_->mutex);
    const auto open = [](const Served& one) { return !one.done; };
    return static_cast<size_t>(std::count_if(impl_->served.begin(), impl_->served.end(), open));
}

}  // namespace sluice
