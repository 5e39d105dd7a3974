#include "tools/client/response_reader.h"

#include <http_parser.h>

#include <utility>
#include <vector>

#include "io/text.h"
#include "tools/server/http_message.h"

namespace sluice {

struct ResponseReader::Impl {
    Impl() {
        http_parser_init(&parser, HTTP_RESPONSE);
        parser.data = this;
    }
    static Impl& of(http_parser* parser) { return *static_cast<Impl*>(parser->data); }
    // The result of a callback that ends the parsing; 1 and 2 mean something else to some.
    int fail(std::string why) {
        state = State::failed;
        if (problem.empty()) problem = std::move(why);
        return 3;
    }
    int add_header_bytes(size_t length) {
        header_bytes += length;
        return header_bytes <= header_max ? 0 : fail("its headers are too long");
    }
    // Headers behind a chunked body are dropped.
    int field(std::string_view part) {
        if (!head_done) {
            if (in_value || headers.empty()) {
                if (headers.size() >= headers_max) return fail("it has too many headers");
                headers.emplace_back();
            }
            in_value = false;
            headers.back().first += lower_case(part);
        }
        return add_header_bytes(part.size());
    }
    int value(std::string_view part) {
        if (!head_done) {
            in_value = true;
            headers.back().second += part;
        }
        return add_header_bytes(part.size());
    }
    int headers_complete() {
        if (parser.status_code < 200 || parser.status_code > 599)
            return fail("its status is not one of an answer");
        head_done = true;
        return 0;
    }
    int message_complete() {
        state = State::complete;
        http_parser_pause(&parser, 1);
        return 0;
    }

    http_parser parser;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body, problem;
    size_t header_bytes = 0;
    bool begun = false, in_value = false, head_done = false;
    State state = State::reading;
};

ResponseReader::ResponseReader() : impl_(std::make_unique<Impl>()) {}

ResponseReader::~ResponseReader() = default;

ResponseReader::State ResponseReader::feed(std::string_view bytes) {
    static const http_parser_settings settings = [] {
        http_parser_settings s;
        http_parser_settings_init(&s);
        s.on_header_field = [](http_parser* p, const char* at, size_t n) {
            return Impl::of(p).field({at, n});
        };
        s.on_header_value = [](http_parser* p, const char* at, size_t n) {
            return Impl::of(p).value({at, n});
        };
        s.on_headers_complete = [](http_parser* p) { return Impl::of(p).headers_complete(); };
        s.on_body = [](http_parser* p, const char* at, size_t n) {
            Impl::of(p).body.append(at, n);
            return 0;
        };
        s.on_message_complete = [](http_parser* p) { return Impl::of(p).message_complete(); };
        return s;
    }();
    Impl& r = *impl_;
    if (r.state != State::reading) return r.state;
    r.begun = true;
    (void)http_parser_execute(&r.parser, &settings, bytes.data(), bytes.size());
    const http_errno number = HTTP_PARSER_ERRNO(&r.parser);
    const bool fine = number == HPE_OK || (number == HPE_PAUSED && r.state == State::complete);
    if (number == HPE_HEADER_OVERFLOW) r.fail("its headers are too long");
    if (!fine) r.fail(cat("this is not HTTP: ", http_errno_description(number)));
    return r.state;
}

// To the parser, no bytes are the end of the connection.
ResponseReader::State ResponseReader::end() {
    if (impl_->state != State::reading) return impl_->state;
    if (!impl_->begun) {
        impl_->fail("the connection was closed without a reply");
        return State::failed;
    }
    if (feed({}) == State::failed) {
        impl_->problem = "the connection was closed before the reply was complete";
    } else if (impl_->state == State::reading) {
        impl_->fail("the connection was closed before the reply was complete");
    }
    return impl_->state;
}

bool ResponseReader::head_done() const {
    return impl_->head_done;
}
int ResponseReader::status() const {
    return static_cast<int>(impl_->parser.status_code);
}
const std::string* ResponseReader::header(std::string_view name) const {
    for (const auto& [key, value] : impl_->headers) {
        if (key == name) return &value;
    }
    return nullptr;
}
std::string ResponseReader::take_body() {
    return std::exchange(impl_->body, {});
}
const std::string& ResponseReader::problem() const {
    return impl_->problem;
}

}  // namespace sluice
