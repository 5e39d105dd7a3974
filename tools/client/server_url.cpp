#include "tools/client/server_url.h"

#include <algorithm>
#include <charconv>

#include "io/text.h"
#include "tools/server/http_message.h"

namespace sluice {

namespace {

constexpr std::string_view scheme = "http://";

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool is_hex(char c) {
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9');
}
bool in_name(char c) {
    return is_word(c) || c == '.' || c == '-' || c == '_';
}
bool in_path(char c) {
    return in_name(c) || c == '/' || c == '~' || c == '%' || c == '+';
}

Result<void> check_scheme(std::string_view text) {
    if (lower_case(text.substr(0, scheme.size())) == scheme) return {};
    if (lower_case(text).starts_with("https://")) {
        return fail(Code::usage,
                    "https is not spoken here; let `ssh -L 8080:127.0.0.1:8080 HOST` or a reverse "
                    "proxy carry http://");
    }
    return fail(Code::usage, "the address begins with http://, such as http://127.0.0.1:8080");
}

// Takes the host off the front of `rest`.
Result<std::string> take_host(std::string_view& rest) {
    const bool bracketed = rest.starts_with('[');
    if (bracketed) rest.remove_prefix(1);
    const auto allowed = [&](char c) {
        return bracketed ? is_hex(c) || c == ':' || c == '.' : in_name(c);
    };
    const auto end = std::ranges::find_if_not(rest, allowed);
    const auto length = static_cast<size_t>(end - rest.begin());
    std::string host(rest.substr(0, length));
    rest.remove_prefix(length);
    if (host.empty() || host.size() > 253) return fail(Code::usage, "the address has no host name");
    if (!bracketed) return host;
    if (!rest.starts_with(']')) return fail(Code::usage, "[ begins an IPv6 address, ] must end it");
    rest.remove_prefix(1);
    return host;
}

// Takes ":8080" off the front of `rest`.
Result<uint16_t> take_port(std::string_view& rest) {
    if (!rest.starts_with(':')) return uint16_t{80};
    rest.remove_prefix(1);
    uint16_t port = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
    if (error != std::errc() || port == 0)
        return fail(Code::usage, "the port is a number from 1 to 65535");
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return port;
}

Result<std::string> prefix_of(std::string_view rest) {
    if (!rest.empty() && !rest.starts_with('/')) {
        return fail(Code::usage, rest.find('@') != rest.npos
                                     ? "an address has no user or password; --api-key gives a key"
                                     : "an address has no such characters");
    }
    if (!std::ranges::all_of(rest, in_path))
        return fail(Code::usage, "an address has no query and no such characters");
    while (rest.ends_with('/')) rest.remove_suffix(1);
    if (rest.ends_with("/v1")) rest.remove_suffix(3);
    while (rest.ends_with('/')) rest.remove_suffix(1);
    return std::string(rest);
}

Result<ServerUrl> parse(std::string_view text) {
    if (auto http = check_scheme(text); !http) return tl::unexpected(http.error());
    std::string_view rest = text.substr(scheme.size());
    auto host = take_host(rest);
    if (!host) return tl::unexpected(host.error());
    auto port = take_port(rest);
    if (!port) return tl::unexpected(port.error());
    auto prefix = prefix_of(rest);
    if (!prefix) return tl::unexpected(prefix.error());
    const bool v6 = host->find(':') != host->npos;
    std::string authority = v6 ? cat('[', *host, ']') : *host;
    if (*port != 80) authority += cat(':', *port);
    return ServerUrl{std::move(*host), *port, std::move(authority), std::move(*prefix)};
}

}  // namespace

Result<ServerUrl> parse_server_url(std::string_view text) {
    auto url = parse(text);
    if (!url) return within(printable(text), url.error());
    return url;
}

}  // namespace sluice
