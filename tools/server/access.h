// Who may ask: checks of the Host and Origin headers and of API keys. Pure; any thread.
//
// A page of another site can make a browser send requests here, and with DNS rebinding even under a
// name of that site. So Host must be a name that this server is known to have, and Origin, where a
// browser sends one, must be the server's own or allowed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "tools/server/http_message.h"

namespace sluice {

struct AccessRules {
    // Names besides localhost, 127.0.0.1, [::1] and the address that the connection came to; in
    // lower case, without a port.
    std::vector<std::string> hosts;
    std::vector<std::string> origins;  // as browsers send them: "https://example.org"; "*": any
    std::vector<std::string> keys;     // empty: none is asked for
};

struct Admission {
    int refused = 0;      // the HTTP status; 0: admitted
    std::string problem;  // one clause
    // For Access-Control-Allow-Origin; empty: no such header. Never text of the request's.
    std::string cors_origin;
    std::string client;  // whose share of the queue the request belongs to
};

// `peer` and `local`: addresses of the connection's two ends. Without `needs_key`, keys are not
// looked at.
Admission admit(const AccessRules& rules, const HttpRequest& request, std::string_view peer,
                std::string_view local, bool needs_key);

// Takes as long wherever the two differ. The length of `given` shows.
bool equal_in_constant_time(std::string_view key, std::string_view given);

// The keys that `text` stands for: itself, or "@FILE", a file with one on each line. Errors (usage,
// not_found, io) do not hold a key.
Result<std::vector<std::string>> read_api_keys(const std::string& text);

}  // namespace sluice
