#include "tools/server/access.h"

#include <algorithm>

#include "io/text.h"
#include "tools/options/user_text.h"

namespace sluice {

namespace {

// "[::1]:8080" -> "[::1]", "localhost:8080" -> "localhost".
std::string host_name(std::string_view host) {
    const size_t bracket = host.rfind(']');
    const size_t colon = host.find(':', bracket == host.npos ? 0 : bracket);
    return lower_case(host.substr(0, colon));
}

bool known_host(const AccessRules& rules, const std::string& name, std::string_view local) {
    if (name == "localhost" || name == "127.0.0.1" || name == "[::1]") return true;
    if (!local.empty() && (name == local || name == cat("[", local, "]"))) return true;
    return std::find(rules.hosts.begin(), rules.hosts.end(), name) != rules.hosts.end();
}

// The allowed origin that the request's is; null: none.
const std::string* allowed_origin(const AccessRules& rules, const std::string& origin) {
    for (const std::string& one : rules.origins) {
        if (one == "*" || one == origin) return &one;
    }
    return nullptr;
}

bool own_origin(const std::string& origin, const std::string& host) {
    const std::string text = lower_case(origin);
    return text == cat("http://", lower_case(host)) || text == cat("https://", lower_case(host));
}

// The key that the request carries; empty: none.
std::string_view key_of(const HttpRequest& request) {
    if (const std::string* key = request.header("x-api-key")) return *key;
    const std::string* value = request.header("authorization");
    constexpr std::string_view scheme = "bearer ";
    if (!value || lower_case(std::string_view(*value).substr(0, scheme.size())) != scheme) {
        return {};
    }
    return std::string_view(*value).substr(scheme.size());
}

// The number of the key that was given; -1: none of them. All are compared, whichever it is.
int matching_key(const std::vector<std::string>& keys, std::string_view given) {
    int found = -1;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (equal_in_constant_time(keys[i], given)) found = static_cast<int>(i);
    }
    return found;
}

void check_key(Admission& out, const AccessRules& rules, const HttpRequest& request) {
    const std::string_view given = key_of(request);
    const int key = matching_key(rules.keys, given);
    if (key >= 0) {
        out.client = cat("key ", key + 1, " ", out.client);
        return;
    }
    out.refused = 401;
    out.problem = given.empty()
                      ? "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"
                      : "the API key is wrong";
}

}  // namespace

bool equal_in_constant_time(std::string_view key, std::string_view given) {
    if (key.empty()) return false;
    volatile unsigned different = key.size() == given.size() ? 0 : 1;
    for (size_t i = 0; i < given.size(); ++i) {
        const auto a = static_cast<unsigned char>(given[i]);
        const auto b = static_cast<unsigned char>(key[i % key.size()]);
        different = different | (a ^ b);
    }
    return different == 0;
}

Admission admit(const AccessRules& rules, const HttpRequest& request, std::string_view peer,
                std::string_view local, bool needs_key) {
    Admission out;
    out.client = peer;
    const std::string* host = request.header("host");
    if (!host || !known_host(rules, host_name(*host), local)) {
        out.refused = 403;
        out.problem = "the Host header is not a name of this server; --allowed-host NAME adds one";
        return out;
    }
    if (const std::string* origin = request.header("origin")) {
        const std::string* allowed = allowed_origin(rules, *origin);
        if (allowed) out.cors_origin = *allowed;
        if (!allowed && !own_origin(*origin, *host)) {
            out.refused = 403;
            out.problem = "the Origin header names another site; --cors ORIGIN allows one";
            return out;
        }
    }
    if (needs_key && !rules.keys.empty()) check_key(out, rules, request);
    return out;
}

Result<std::vector<std::string>> read_api_keys(const std::string& text) {
    std::string all = text;
    if (text.starts_with('@')) {
        auto file = read_user_file("--api-key", text.substr(1));
        if (!file) return tl::unexpected(file.error());
        all = *file;
    }
    std::vector<std::string> keys;
    for (size_t at = 0; at < all.size();) {
        const size_t end = std::min(all.find('\n', at), all.size());
        std::string key = all.substr(at, end - at);
        while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
        at = end + 1;
        if (key.empty()) continue;
        const auto visible = [](char c) { return c > 0x20 && c < 0x7f; };
        if (!std::all_of(key.begin(), key.end(), visible))
            return fail(Code::usage, "--api-key: a key has characters that no header can carry");
        keys.push_back(std::move(key));
    }
    if (keys.empty()) return fail(Code::usage, "--api-key: there is no key");
    return keys;
}

}  // namespace sluice
