// An address of the service and what answers there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/api/dialect.h"
#include "tools/server/http_server.h"

namespace sluice {

// What is known of a request besides its reply: for the endpoint, then for the log.
struct Handled {
    std::string client;  // whose share of the queue it is
    bool left = false;   // the client went away before it had the whole reply
    bool answered = false;
    uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;  // of an answer
    std::string problem;  // why the answer is not complete, if the client is not to blame
    std::string ignored;  // fields of the request that change nothing
};

struct Endpoint {
    const char* method;
    std::string path;  // with a slash at its end: all that begins so
    bool needs_key, needs_model;
    const Dialect* dialect;  // how errors are written; null: as OpenAI does
    std::function<void(Exchange&, Handled&)> handle;
    bool polled = false;  // asked for again and again: logged only if all details are
};

// Replies with an error in the form of `dialect`; null: in OpenAI's.
void reply_error(Exchange& exchange, int status, std::string_view message, const Dialect* dialect);

}  // namespace sluice
