// An HTTP request that has arrived whole, and the reply to it. Plain values: no sockets here.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct HttpRequest {
    std::string method;  // "GET"
    std::string path;    // as sent: still percent-encoded, without the query
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::string body;
    bool keep_alive = false;  // the client would send another request on this connection
    bool chunks = false;      // it understands chunked bodies: HTTP/1.1

    // The value of the first header with this name, given in lower case; null: there is none.
    const std::string* header(std::string_view name) const;
    size_t count(std::string_view name) const;
};

// No header holds text of a client's: then none can be split by line breaks in it.
struct HttpReply {
    int status = 200;
    std::string body = {};
    std::string type = "application/json";
    std::vector<std::pair<std::string, std::string>> headers = {};
};

const char* status_text(int status);  // "Not Found"

// The status line and the headers up to and including the empty line. `length`: the body's; chunks
// or the end of the connection delimit a body whose length is negative.
std::string http_head(const HttpReply& reply, int64_t length, bool chunks, bool keep_alive);
// One chunk of a chunked body. Requires bytes: an empty chunk is the end.
std::string http_chunk(std::string_view bytes);
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

// "%2F" -> "/". What is no valid escape stays as it is.
std::string percent_decoded(std::string_view text);
std::string lower_case(std::string_view text);  // ASCII

}  // namespace sluice
