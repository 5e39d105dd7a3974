#include "tools/client/server_error.h"

#include <algorithm>

#include "io/text.h"

namespace sluice {

namespace {

constexpr int timeouts[] = {408, 425, 429, 499};

// {"error": {"message"}}, {"error": "text"}, {"message"}, {"detail"}; empty: none of them.
std::string message_in(const Json& json) {
    for (const Json& one :
         {json["error"]["message"], json["error"], json["message"], json["detail"]}) {
        if (auto text = one.string(); text && !text->empty()) return printable(*text);
    }
    return {};
}

std::string words_of(const ServerReply& reply) {
    if (auto json = Json::parse(reply.body)) {
        if (std::string message = message_in(*json); !message.empty()) return message;
    }
    if (reply.status == 200) return "its reply is not an event stream: this is no such server";
    if (reply.status / 100 == 3) return "it sends elsewhere, which is not followed";
    if (reply.status == 404) return "it has no such address: this is no such server";
    return "it gives no reason";
}

}  // namespace

Error refusal_of(const ServerReply& reply) {
    const bool asker =
        reply.status / 100 == 4 && std::ranges::find(timeouts, reply.status) == std::end(timeouts);
    std::string text = words_of(reply);
    if (reply.status != 200) text += cat(" (HTTP ", reply.status, ')');
    if (reply.status == 401) text += "; --api-key KEY|@FILE or SLUICE_API_KEY gives one";
    if (reply.retry_after > 0) text += cat("; try again in ", reply.retry_after, " s");
    return {asker ? Code::usage : Code::io, std::move(text)};
}

Error failure_of(const Json& error) {
    std::string text = printable(error["message"].string().value_or(error.string().value_or("")));
    const bool asker = error["type"].string().value_or("") == "invalid_request_error";
    if (text.empty()) text = "it reports an error without a reason";
    return {asker ? Code::usage : Code::io, std::move(text)};
}

}  // namespace sluice
