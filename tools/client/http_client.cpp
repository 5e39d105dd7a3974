#include "tools/client/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "io/clock.h"
#include "io/text.h"
#include "tools/client/response_reader.h"
#include "tools/server/http_message.h"

namespace sluice {

namespace {

constexpr std::chrono::milliseconds look_every{50};  // at the cancel flag
constexpr std::chrono::seconds connect_time{10}, write_time{30};
constexpr size_t write_piece = 256 << 10;

tl::unexpected<Error> cancelled() {
    return fail(Code::interrupted, "interrupted");
}

int64_t seconds_of(const std::string* header) {
    int64_t seconds = 0;
    if (header) std::from_chars(header->data(), header->data() + header->size(), seconds);
    return std::clamp<int64_t>(seconds, 0, 86400);
}

// A response on its way: what has come, and where it goes.
class Reception {
 public:
    Reception(const HttpClient::StreamSink& sink) : sink_(sink) {}
    const ServerReply& reply() const { return reply_; }

    // Whether the reply is complete, or its sink wants no more.
    Result<bool> take(std::string_view bytes) { return advance(reader_.feed(bytes)); }
    Result<bool> end() { return advance(reader_.end()); }

 private:
    Result<bool> advance(ResponseReader::State state) {
        if (reader_.head_done()) {
            read_head();
            const std::string body = reader_.take_body();
            if (reply_.streamed && !body.empty()) {
                auto more = sink_(body);
                if (!more) return tl::unexpected(more.error());
                if (!*more) return true;
            } else if (reply_.body.size() + body.size() > HttpClient::body_max) {
                return fail(Code::io, "its reply is too long");
            } else {
                reply_.body += body;
            }
        }
        if (state == ResponseReader::State::failed) return fail(Code::io, reader_.problem());
        return state == ResponseReader::State::complete;
    }
    void read_head() {
        if (reply_.status != 0) return;
        reply_.status = reader_.status();
        reply_.retry_after = seconds_of(reader_.header("retry-after"));
        const std::string* type = reader_.header("content-type");
        reply_.streamed = sink_ && reply_.status == 200 && type &&
                          lower_case(*type).starts_with("text/event-stream");
    }

    const HttpClient::StreamSink& sink_;
    ResponseReader reader_;
    ServerReply reply_;
};

}  // namespace

Result<void> HttpClient::look_up() {
    addrinfo wanted = {};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(url_.port);
    const int error = ::getaddrinfo(url_.host.c_str(), port.c_str(), &wanted, &found);
    if (error != 0) return fail(Code::io, cat("no such host: ", ::gai_strerror(error)));
    for (const addrinfo* one = found; one; one = one->ai_next) {
        Address address = {{}, one->ai_addrlen, one->ai_family};
        std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
        addresses_.push_back(address);
    }
    ::freeaddrinfo(found);
    return {};
}

// A socket that is connected and does not block.
Result<int> HttpClient::connect_to(const Address& address) const {
    const int fd = ::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail(Code::io, errno_text(errno));
    const auto failed = [&](int number) {
        ::close(fd);
        return fail(Code::io, errno_text(number));
    };
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0)
        return fd;
    if (errno != EINPROGRESS) return failed(errno);
    const auto deadline = Clock::now() + connect_time;
    pollfd one = {fd, POLLOUT, 0};
    while (::poll(&one, 1, static_cast<int>(look_every.count())) <= 0) {
        if (*cancel_) {
            ::close(fd);
            return cancelled();
        }
        if (Clock::now() >= deadline) return failed(ETIMEDOUT);
    }
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return failed(error);
    return fd;
}

// With the first address that takes it.
Result<std::unique_ptr<Connection>> HttpClient::open() const {
    Error last{Code::io, "no address"};
    for (const Address& address : addresses_) {
        auto fd = connect_to(address);
        if (fd) return std::make_unique<Connection>(*fd, std::string());
        last = fd.error();
        if (last.code == Code::interrupted) break;
    }
    if (last.code == Code::interrupted) return tl::unexpected(last);
    return fail(Code::io, cat("it cannot be reached: ", last.message));
}

Result<HttpClient> HttpClient::connect(ServerUrl url, std::string key,
                                       const std::atomic<bool>& cancel) {
    HttpClient client(std::move(url), std::move(key), cancel);
    if (auto found = client.look_up(); !found) return tl::unexpected(found.error());
    if (auto reached = client.open(); !reached) return tl::unexpected(reached.error());
    return client;
}

std::string HttpClient::head(const ServerQuestion& question) const {
    std::string out =
        cat(question.method, ' ', url_.prefix, question.path, " HTTP/1.1\r\nHost: ", url_.authority,
            "\r\nUser-Agent: sluice\r\nConnection: close\r\n");
    if (!key_.empty()) out += cat("Authorization: Bearer ", key_, "\r\n");
    if (!question.body.empty()) {
        out +=
            cat("Content-Type: application/json\r\nContent-Length: ", question.body.size(), "\r\n");
    }
    return out + "\r\n";
}

Result<void> HttpClient::send(Connection& connection, std::string_view bytes) const {
    while (!bytes.empty()) {
        if (*cancel_) return cancelled();
        // A server that refuses a long body may answer, and close, before all of it was sent.
        if (!connection.write(bytes.substr(0, write_piece), Clock::now() + write_time)) return {};
        bytes.remove_prefix(std::min(bytes.size(), write_piece));
    }
    return {};
}

Result<ServerReply> HttpClient::ask(const ServerQuestion& question, const StreamSink& sink) const {
    auto connection = open();
    if (!connection) return tl::unexpected(connection.error());
    if (auto sent = send(**connection, head(question) + question.body); !sent)
        return tl::unexpected(sent.error());
    Reception reception(sink);
    std::string bytes;
    auto heard = Clock::now();
    while (true) {
        if (*cancel_) return cancelled();
        const auto got = (*connection)->read(bytes, Clock::now() + look_every);
        if (got == Connection::Got::timeout) {
            if (Clock::now() - heard < question.patience) continue;
            return fail(Code::io, cat("it has sent nothing for ", question.patience.count(), " s"));
        }
        heard = Clock::now();
        const bool ended = got == Connection::Got::end;
        auto complete = ended ? reception.end() : reception.take(bytes);
        if (!complete) return tl::unexpected(complete.error());
        if (*complete || ended) return reception.reply();
    }
}

}  // namespace sluice
