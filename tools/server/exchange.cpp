// Source of http_server.h: Exchange.
#include "tools/server/http_server.h"

namespace sluice {

namespace {

constexpr size_t piece_max = 256 << 10;  // bytes that must be taken within one write timeout

}  // namespace

void Exchange::add_header(std::string name, std::string value) {
    headers_.emplace_back(std::move(name), std::move(value));
}

void Exchange::reply(HttpReply reply) {
    status_ = reply.status;
    reply.headers.insert(reply.headers.end(), headers_.begin(), headers_.end());
    // 204 has no body, and no length of one.
    const bool bodiless = reply.status == 204;
    std::string out =
        http_head(reply, bodiless ? -1 : static_cast<int64_t>(reply.body.size()), false, keep_);
    if (!bodiless && request_.method != "HEAD") out += reply.body;
    std::string_view rest = out;
    whole_ = true;
    while (whole_ && !rest.empty()) {
        whole_ = connection_.write(rest.substr(0, piece_max), write_deadline());
        rest.remove_prefix(std::min(rest.size(), piece_max));
    }
}

void Exchange::begin_stream(HttpReply head) {
    status_ = head.status;
    head.headers.insert(head.headers.end(), headers_.begin(), headers_.end());
    if (!request_.chunks) keep_ = false;
    connection_.write(http_head(head, -1, request_.chunks, keep_), write_deadline());
}

bool Exchange::send(std::string_view bytes) {
    if (bytes.empty()) return true;
    const std::string chunk = request_.chunks ? http_chunk(bytes) : std::string(bytes);
    return connection_.write(chunk, write_deadline());
}

void Exchange::end_stream() {
    whole_ = !request_.chunks || connection_.write(last_chunk, write_deadline());
}

}  // namespace sluice
