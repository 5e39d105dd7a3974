#include "tools/server/request_reader.h"

#include <http_parser.h>

#include <algorithm>
#include <utility>

#include "io/text.h"

namespace sluice {

struct RequestReader::Impl {
    explicit Impl(const HttpLimits& l) : limits(l) { restart(); }

    void restart() {
        http_parser_init(&parser, HTTP_REQUEST);
        parser.data = this;
        request = {};
        target.clear();
        header_bytes = 0;
        line_length = 0;
        first_line = true;
        after_return = head_ended = false;
        in_value = begun = headers_done = headers_told = complete = expects_continue = false;
    }

    // The result of a callback that ends the parsing.
    int fail(int code, std::string why) {
        status = code;
        problem = std::move(why);
        return 1;
    }

    int add_header_bytes(size_t length) {
        header_bytes += length;
        if (header_bytes <= limits.header_max) return 0;
        return fail(
            431, cat("the headers have more than ", limits.header_max, " bytes (--max-headers)"));
    }
    int url(std::string_view part) {
        target += part;
        if (target.size() > limits.target_max) return fail(414, "the address is too long");
        return add_header_bytes(part.size());
    }
    // Headers behind a chunked body are dropped: they would escape all checks of the others.
    int field(std::string_view part) {
        if (headers_done) return add_header_bytes(part.size());
        if (in_value || request.headers.empty()) {
            if (request.headers.size() >= limits.headers_max) {
                return fail(431, cat("more than ", limits.headers_max, " headers"));
            }
            request.headers.emplace_back();
        }
        in_value = false;
        request.headers.back().first += lower_case(part);
        return add_header_bytes(part.size());
    }
    int value(std::string_view part) {
        if (headers_done) return add_header_bytes(part.size());
        in_value = true;
        request.headers.back().second += part;
        return add_header_bytes(part.size());
    }
    int headers_complete();
    bool strict_lines(std::string_view bytes);
    int body(std::string_view part) {
        if (request.body.size() + part.size() > limits.body_max) return too_large();
        request.body += part;
        return 0;
    }
    int message_complete() {
        complete = true;
        http_parser_pause(&parser, 1);
        return 0;
    }
    int too_large() {
        return fail(413, cat("the body has more than ", limits.body_max, " bytes (--max-body)"));
    }
    void parser_failed();

    const HttpLimits limits;
    http_parser parser;
    HttpRequest request;
    std::string target, rest, problem;
    uint64_t header_bytes = 0, line_length = 0;
    bool after_return = false, first_line = true, head_ended = false;
    int status = 0;
    bool in_value = false, begun = false, headers_done = false, complete = false;
    bool headers_told = false, expects_continue = false;
};

namespace {

RequestReader::Impl& of(http_parser* parser) {
    return *static_cast<RequestReader::Impl*>(parser->data);
}

http_parser_settings make_settings() {
    http_parser_settings s;
    http_parser_settings_init(&s);
    s.on_url = [](http_parser* p, const char* at, size_t n) { return of(p).url({at, n}); };
    s.on_header_field = [](http_parser* p, const char* at, size_t n) {
        return of(p).field({at, n});
    };
    s.on_header_value = [](http_parser* p, const char* at, size_t n) {
        return of(p).value({at, n});
    };
    s.on_headers_complete = [](http_parser* p) { return of(p).headers_complete(); };
    s.on_body = [](http_parser* p, const char* at, size_t n) { return of(p).body({at, n}); };
    s.on_message_complete = [](http_parser* p) { return of(p).message_complete(); };
    return s;
}

}  // namespace

// What the parser lets pass in a head, and a proxy in front may read in another way: lines that end
// without a carriage return, and lines that go on behind a blank.
bool RequestReader::Impl::strict_lines(std::string_view bytes) {
    for (const char c : bytes) {
        if (head_ended) return true;
        if (c == '\n') {
            if (!after_return) return false;
            head_ended = line_length == 0 && !first_line;
            first_line = first_line && line_length == 0;
            line_length = 0;
        } else if (line_length == 0 && !first_line && (c == ' ' || c == '\t')) {
            return false;
        } else if (c != '\r') {
            ++line_length;
        }
        after_return = c == '\r';
    }
    return true;
}

// The parser takes a result of 1 for "no body follows" and of 2 for an upgrade: failures are other
// numbers here.
int RequestReader::Impl::headers_complete() {
    constexpr int stop = 3;
    request.method = http_method_str(static_cast<http_method>(parser.method));
    request.path = target.substr(0, target.find('?'));
    request.keep_alive = http_should_keep_alive(&parser) != 0;
    request.chunks = parser.http_major == 1 && parser.http_minor >= 1;
    const auto refuse = [&](int code, const char* why) {
        fail(code, why);
        return stop;
    };
    if (parser.http_major != 1) return refuse(505, "only HTTP/1.1 is spoken here");
    if (!target.starts_with('/') && target != "*")
        return refuse(400, "the address does not begin with a slash");
    headers_done = true;
    for (const auto& [name, text] : request.headers) {
        constexpr std::string_view token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
        if (name.empty() || name.find_first_not_of(token) != std::string::npos)
            return refuse(400, "a header's name has a character that is not allowed there");
        const auto control = [](char c) {
            return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
        };
        if (std::any_of(text.begin(), text.end(), control))
            return refuse(400, "a header has a control character");
    }
    if (request.count("host") != 1) return refuse(400, "there must be one Host header");
    for (const char* name : {"content-length", "transfer-encoding", "authorization", "x-api-key",
                             "origin", "content-encoding"}) {
        if (request.count(name) > 1) return refuse(400, "a header is given twice");
    }
    // Chunks are framed in a second way, which the parser reads leniently.
    if (request.header("transfer-encoding") != nullptr)
        return refuse(411, "a body needs a Content-Length; Transfer-Encoding is not accepted");
    const std::string* coding = request.header("content-encoding");
    if (coding && lower_case(*coding) != "identity")
        return refuse(415, "compressed bodies are not accepted");
    const bool sized = (parser.flags & F_CONTENTLENGTH) != 0;
    if (sized && parser.content_length > limits.body_max) {
        too_large();
        return stop;
    }
    const std::string* expect = request.header("expect");
    if (expect && lower_case(*expect) != "100-continue")
        return refuse(417, "an unknown expectation");
    expects_continue = expect != nullptr && request.chunks;
    return 0;
}

void RequestReader::Impl::parser_failed() {
    if (status != 0) return;
    const http_errno number = HTTP_PARSER_ERRNO(&parser);
    if (number == HPE_HEADER_OVERFLOW) {
        fail(431, "the headers are too long");
    } else {
        fail(400, cat("not a valid HTTP request: ", http_errno_description(number)));
    }
}

RequestReader::RequestReader(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}

RequestReader::~RequestReader() = default;

RequestReader::State RequestReader::feed(std::string_view bytes) {
    static const http_parser_settings settings = make_settings();
    Impl& r = *impl_;
    if (r.status != 0) return State::failed;
    if (r.complete) {
        r.rest += bytes;
        return State::complete;
    }
    std::string kept = std::move(r.rest);
    r.rest.clear();
    if (!kept.empty()) {
        kept += bytes;
        bytes = kept;
    }
    if (bytes.empty()) return State::reading;
    r.begun = true;
    if (!r.strict_lines(bytes)) {
        r.fail(400, "not a valid HTTP request: a line of its head ends or begins wrongly");
        return State::failed;
    }
    const size_t taken = http_parser_execute(&r.parser, &settings, bytes.data(), bytes.size());
    if (r.complete && r.status == 0) {
        r.rest = bytes.substr(taken);
        return State::complete;
    }
    if (HTTP_PARSER_ERRNO(&r.parser) == HPE_OK && r.status == 0) return State::reading;
    r.parser_failed();
    r.request.path = r.target.substr(0, r.target.find('?'));
    return State::failed;
}

HttpRequest RequestReader::take() {
    HttpRequest request = std::move(impl_->request);
    impl_->restart();
    return request;
}

bool RequestReader::begun() const {
    return impl_->begun || !impl_->rest.empty();
}
bool RequestReader::take_headers_done() {
    const bool news = impl_->headers_done && !impl_->complete && impl_->status == 0;
    return news && !std::exchange(impl_->headers_told, true);
}
bool RequestReader::expects_continue() const {
    return impl_->expects_continue;
}
const HttpRequest& RequestReader::so_far() const {
    return impl_->request;
}
int RequestReader::status() const {
    return impl_->status;
}
const std::string& RequestReader::problem() const {
    return impl_->problem;
}

}  // namespace sluice
