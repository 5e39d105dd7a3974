// The address of a server, as users give it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

struct ServerUrl {
    std::string host;  // for the resolver: no brackets around an IPv6 address
    uint16_t port = 80;
    std::string authority;  // for the Host header: "[::1]:8080"
    std::string prefix;     // "/llm", what a proxy puts before the server's addresses; or empty

    std::string text() const { return "http://" + authority + prefix; }
};

// "http://HOST[:PORT][/PREFIX]". A slash at the end, and /v1 there, as clients of OpenAI write it,
// are dropped. usage, naming what is wrong: another scheme (https is not spoken here), a user, a
// query, characters that no address has.
Result<ServerUrl> parse_server_url(std::string_view text);

}  // namespace sluice
