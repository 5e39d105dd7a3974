#include "tools/server/endpoint.h"

#include "tools/answer/json_writer.h"

namespace sluice {

namespace {

const char* error_type(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 429:
            return "rate_limit_error";
        case 500:
            return "server_error";
        case 503:
            return "unavailable_error";
        default:
            return "invalid_request_error";
    }
}

}  // namespace

std::string error_json(int status, std::string_view message) {
    JsonWriter json;
    json.begin_object().key("error").begin_object();
    json.member("message", message).member("type", error_type(status)).member("code", status);
    return json.end_object().end_object().text();
}

void reply_error(Exchange& exchange, int status, std::string_view message,
                 const Dialect* dialect) {
    exchange.reply({status, dialect ? dialect->error(status, message)
                                    : error_json(status, message)});
}

}  // namespace sluice
