#include "tools/server/http_message.h"

#include <http_parser.h>

#include <algorithm>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

const std::string* HttpRequest::header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
        if (key == name) return &value;
    }
    return nullptr;
}

size_t HttpRequest::count(std::string_view name) const {
    return static_cast<size_t>(std::count_if(headers.begin(), headers.end(),
                                             [&](const auto& one) { return one.first == name; }));
}

const char* status_text(int status) {
    if (status == 499) return "Client Closed Request";
    return http_status_str(static_cast<http_status>(status));
}

std::string http_head(const HttpReply& reply, int64_t length, bool chunks, bool keep_alive) {
    std::string out = cat("HTTP/1.1 ", reply.status, " ", status_text(reply.status), "\r\n");
    if (!reply.type.empty()) out += cat("Content-Type: ", reply.type, "\r\n");
    if (length >= 0) out += cat("Content-Length: ", length, "\r\n");
    if (length < 0 && chunks) out += "Transfer-Encoding: chunked\r\n";
    for (const auto& [name, value] : reply.headers) out += cat(name, ": ", value, "\r\n");
    return out + (keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

std::string http_chunk(std::string_view bytes) {
    return cat(formatted("{:x}", bytes.size()), "\r\n", bytes, "\r\n");
}

std::string percent_decoded(std::string_view text) {
    const auto digit = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        if (c >= 'A' && c <= 'F') return c - 'A' + 10;
        return -1;
    };
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const int high = text[i] == '%' && i + 2 < text.size() ? digit(text[i + 1]) : -1;
        const int low = high >= 0 ? digit(text[i + 2]) : -1;
        if (low >= 0) i += 2;
        out += low >= 0 ? static_cast<char>(high * 16 + low) : text[i];
    }
    return out;
}

std::string lower_case(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return out;
}

}  // namespace sluice
