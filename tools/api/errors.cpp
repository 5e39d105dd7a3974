#include "tools/api/errors.h"

#include <algorithm>

namespace sluice {

namespace {

// code: empty for null.
struct ErrorKind {
    int status;
    std::string_view openai_type, openai_code, anthropic_type;
};
constexpr ErrorKind kinds[] = {
    {400, "invalid_request_error", "", "invalid_request_error"},
    {401, "authentication_error", "invalid_api_key", "authentication_error"},
    {403, "permission_error", "", "permission_error"},
    {404, "invalid_request_error", "not_found", "not_found_error"},
    {405, "invalid_request_error", "method_not_allowed", "invalid_request_error"},
    {408, "timeout_error", "request_timeout", "timeout_error"},
    {413, "invalid_request_error", "request_too_large", "request_too_large"},
    {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
    {499, "request_cancelled", "", "api_error"},
    {503, "overloaded_error", "overloaded", "overloaded_error"},
};
constexpr ErrorKind other_request{0, "invalid_request_error", "", "invalid_request_error"};
constexpr ErrorKind server_fault{0, "server_error", "", "api_error"};

const ErrorKind& kind_of(int status) {
    for (const ErrorKind& kind : kinds) {
        if (kind.status == status) return kind;
    }
    return status >= 400 && status < 500 ? other_request : server_fault;
}

// "messages[0].role" of "messages[0].role: expected ..."; empty if there is no such beginning.
std::string_view field_of(std::string_view message) {
    const size_t end = message.find(": ");
    if (end == std::string_view::npos) return {};
    const std::string_view field = message.substr(0, end);
    const bool named = std::all_of(field.begin(), field.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
               c == '[' || c == ']';
    });
    return named ? field : std::string_view{};
}

void write_or_null(JsonWriter& json, std::string_view name, std::string_view text) {
    json.key(name);
    if (text.empty()) {
        json.null();
    } else {
        json.value(text);
    }
}

}  // namespace

void write_openai_error(JsonWriter& json, int status, std::string_view message) {
    const ErrorKind& kind = kind_of(status);
    json.begin_object().member("message", message).member("type", kind.openai_type);
    write_or_null(json, "param", status == 400 ? field_of(message) : std::string_view{});
    write_or_null(json, "code", kind.openai_code);
    json.end_object();
}

std::string openai_error(int status, std::string_view message) {
    JsonWriter json;
    json.begin_object().key("error");
    write_openai_error(json, status, message);
    json.end_object();
    return json.text();
}

std::string anthropic_error(int status, std::string_view message) {
    JsonWriter json;
    json.begin_object()
        .member("type", "error")
        .key("error")
        .begin_object()
        .member("type", kind_of(status).anthropic_type)
        .member("message", message)
        .end_object()
        .end_object();
    return json.text();
}

}  // namespace sluice
